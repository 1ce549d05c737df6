"""The launches of one product, in order, and which buffer each one works in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.pipeline.buffers import Buffers, fit_buffers
from wavetrim.kernels.pipeline.panels import PanelProblem, cut_rows

DEPTH_QUANTUM: Final = 64
"""Parts of K are multiples of so many, which every kernel takes whole."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a product is cut into steps; `list_steps` says which.

    Attributes:
        first_rows: Rows of the first panel: the prologue computes them while B arrives.
        panel_rows: Rows of the panels behind it.
        last_rows: Rows to which the last panels halve.
        depth: How much of K the prologue takes at a time.
        columns: Columns of B that the prologue goes through K with.
        rest_columns: How many of the other columns follow at a time.
    """

    first_rows: int
    panel_rows: int
    last_rows: int
    depth: int
    columns: int
    rest_columns: int


@dataclass(frozen=True, slots=True)
class Step:
    """One launch: C[rows, columns] ← A[rows, depth] · B[depth, columns], or that added to C.

    Attributes:
        rows: Rows of A and C.
        columns: Columns of B and C.
        depth: Columns of A, rows of B.
        depth_offset: Where `depth` begins in the buffers of A and B.
        buffer_depth: Columns of A and rows of B that the buffers hold in the end.
        buffer_columns: Columns of B and C that the buffers hold in the end.
        a_depth: Columns of A[rows] that must be copied in before, up to the end of `depth` at
            least; what is not among them is there already.
        a_slot: Buffer of A.
        b_slot: Buffer of B.
        c_slot: Buffer of C.
        loads_b: Whether B[depth, columns] must be copied in before.
        first: Whether it is the first into this part of C: β counts here, later ones add.
        last: Whether it is the last into this part of C, which leaves then.
        follows: Index of the step after which A and B may be copied in, because it is the last
            to use what their buffers held before; -1 for none.
        c_follows: Likewise for the buffer of C, which must have left for the host by then.
    """

    rows: range
    columns: range
    depth: range
    depth_offset: int
    buffer_depth: int
    buffer_columns: range
    a_depth: range
    a_slot: int
    b_slot: int
    c_slot: int
    loads_b: bool
    first: bool
    last: bool
    follows: int
    c_follows: int


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """The steps of one product and the buffers that they work in. A plan equals only itself."""

    cut: Cut
    steps: tuple[Step, ...]
    buffers: Buffers


def cut_steps(problem: PanelProblem, cut: Cut, gpu_memory_bytes: int) -> StepPlan:
    """The steps of a product by one cut, as far as the memory allows it.

    Raises:
        OperandError: Not even one tile fits; the message names the least `gpu_memory_bytes`.
    """
    buffers = fit_buffers(problem, cut.panel_rows, cut.first_rows, gpu_memory_bytes)
    return StepPlan(cut, tuple(list_steps(problem, cut, buffers)), buffers)


def list_steps(problem: PanelProblem, cut: Cut, buffers: Buffers) -> Iterator[Step]:
    """The steps of a product.

    Columns are outermost (one group where B fits), then panels of rows, then K. Where B fits, the
    first panel goes through K in steps, so that the GPU starts when the first rows of B have
    arrived and not the last. It may do so with some of B's columns, for which less must arrive and
    of which C leaves while the others are computed.

    Args:
        problem: The product.
        cut: How it is cut.
        buffers: What the device has room for, which may be less than the cut wants.
    """
    first_rows, panel_rows = min(cut.first_rows, buffers.rows), min(cut.panel_rows, buffers.rows)
    panels = cut_rows(problem, first_rows, panel_rows, cut.last_rows)
    return _assign_slots(problem, buffers, list(_list_parts(problem, buffers, panels, cut)))


@dataclass(frozen=True, slots=True)
class _Part:
    """A step before it has buffers; `leads`: in the first panel of its `group` of columns."""

    rows: range
    group: range
    columns: range
    depth: range
    a_depth: range
    leads: bool


def _list_parts(
    problem: PanelProblem, buffers: Buffers, panels: list[range], cut: Cut
) -> Iterator[_Part]:
    for group in _divide(problem.n, buffers.columns):
        for rows in panels:
            leads = rows.start == 0
            if leads and len(group) == problem.n and buffers.depth == problem.k:
                yield from _list_prologue(problem, rows, cut)
                continue
            size = min(buffers.depth, cut.depth) if leads else buffers.depth
            for depth in _divide(problem.k, size):
                yield _Part(rows, group, group, depth, depth, leads)


def _list_prologue(problem: PanelProblem, rows: range, cut: Cut) -> Iterator[_Part]:
    """The first panel, where there is room for all of B: K in steps, then the other columns."""
    columns, depth, nothing = range(problem.n), range(problem.k), range(0)
    quantum, loaded = problem.a_quantum, 0
    for some in _divide(problem.k, cut.depth):
        until = min(problem.k, -(-some.stop // quantum) * quantum)
        yield _Part(rows, columns, range(cut.columns), some, range(loaded, until), leads=True)
        loaded = until
    for some in _divide(problem.n, cut.rest_columns, cut.columns):
        yield _Part(rows, columns, some, depth, nothing, leads=True)


class _Fills:
    """The fills of one operand's buffers, which take turns, and the steps that used each last."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._content: object = None
        self._last_users: list[int] = []

    def take(self, index: int, content: object) -> tuple[int, int]:
        """The buffer in which a step finds a content, and the last step that needs what it held."""
        if not self._last_users or content != self._content:
            self._content = content
            self._last_users.append(index)
        else:
            self._last_users[-1] = index
        fill = len(self._last_users) - 1
        earlier = fill - self._slots
        return fill % self._slots, self._last_users[earlier] if earlier >= 0 else -1


def _assign_slots(problem: PanelProblem, buffers: Buffers, parts: list[_Part]) -> Iterator[Step]:
    """Give each part its buffers, in turn, and name the step after which they are free."""
    cuts_k = buffers.depth < problem.k
    a, b, c = map(_Fills, (buffers.a_slots, buffers.b_slots, buffers.c_slots))
    for index, part in enumerate(parts):
        rows, group, depth = part.rows, part.group, part.depth
        a_slot, a_free = a.take(index, (group, rows, depth.start if cuts_k else 0))
        b_slot, b_free = b.take(index, (group, (rows, depth) if cuts_k else None))
        c_slot, c_free = c.take(index, (group, rows))
        yield Step(
            rows=rows,
            columns=part.columns,
            depth=depth,
            depth_offset=0 if cuts_k else depth.start,
            buffer_depth=len(depth) if cuts_k else problem.k,
            buffer_columns=group,
            a_depth=part.a_depth,
            a_slot=a_slot,
            b_slot=b_slot,
            c_slot=c_slot,
            loads_b=cuts_k or part.leads,
            first=depth.start == 0,
            last=depth.stop == problem.k,
            follows=max(a_free, b_free),
            c_follows=c_free,
        )


def _divide(length: int, size: int, first: int = 0) -> list[range]:
    """Ranges of at most `size` that cover `first`…length."""
    return [range(start, min(start + size, length)) for start in range(first, length, size)]
