"""The steps of a product: its launches in order, and the buffers of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from wavetrim.kernels.schedule.buffers import Buffers, fit_buffers
from wavetrim.kernels.schedule.panels import PanelProblem, cut_rows

DEPTH_QUANTUM: Final = 64
"""Parts of K are multiples of this: a multiple of every kernel's step along K."""


class Cut(NamedTuple):
    """Seven numbers from which `list_steps` makes the steps of a product.

    A named tuple, because the planner makes and compares thousands.

    Attributes:
        first_rows: Rows of the first panel, which the prologue computes while B arrives.
        panel_rows: Rows of the panels after it.
        last_rows: Rows of the last panel; the panels before it halve down to this.
        depth: Part of K that the prologue takes at a time.
        a_depth: Columns of A that the prologue copies in at a time, at least `depth`.
        columns: First columns of B, for which the prologue goes along K in steps of `depth`.
        rest_columns: Further columns that the prologue then takes at a time, each over all of K.
    """

    first_rows: int
    panel_rows: int
    last_rows: int
    depth: int
    a_depth: int
    columns: int
    rest_columns: int


class Step(NamedTuple):
    """One launch: C[rows, columns] ← A[rows, depth] · B[depth, columns], or added to C.

    Attributes:
        rows: Rows of A and C.
        columns: Columns of B and C.
        depth: Columns of A, rows of B.
        depth_offset: Offset of `depth` in the buffers of A and B.
        buffer_depth: Columns of A and rows of B that the full buffers hold.
        buffer_columns: Columns of B and C that the full buffers hold.
        a_depth: Columns of A[rows] to copy in first. With those that earlier steps have copied,
            they reach at least to the end of `depth`.
        a_slot: Buffer of A.
        b_slot: Buffer of B.
        c_slot: Buffer of C.
        begins_b: Whether it is the first step with this B[depth, columns]: later ones find it on
            the device, with its splits.
        loads_b: Whether to copy in B[depth, columns] first: `begins_b`, unless B is resident.
        first: Whether it is the first step of this part of C: β applies. Later steps add.
        last: Whether it is the last step of this part of C, which is then copied out.
        follows: Index of the last step that uses what the buffers of A and B held before; copies in
            wait for its kernel. -1 for none.
        c_follows: Likewise for the buffer of C; the kernel waits for its copy out.
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
    begins_b: bool
    loads_b: bool
    first: bool
    last: bool
    follows: int
    c_follows: int


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """The steps of one product and their buffers. A plan equals only itself."""

    cut: Cut
    steps: tuple[Step, ...]
    buffers: Buffers


@lru_cache(maxsize=1024)
def cut_steps(problem: PanelProblem, cut: Cut, gpu_memory_bytes: int) -> StepPlan:
    """The steps of a product by one cut; panels are smaller if memory is short.

    They are kept for a while: one search after another times the same cuts at other rates.

    Raises:
        OperandError: Not even one tile fits; the message names the smallest `gpu_memory_bytes`.
    """
    buffers = fit_buffers(problem, cut.panel_rows, cut.first_rows, gpu_memory_bytes)
    return StepPlan(cut, tuple(list_steps(problem, cut, buffers)), buffers)


def list_steps(problem: PanelProblem, cut: Cut, buffers: Buffers) -> Iterator[Step]:
    """The steps of a product in order.

    Loops from the outermost: groups of columns (one group if B fits), panels of rows, K. If B fits,
    the first panel is the prologue: it goes along K in steps, so the GPU starts when the first rows
    of B have arrived. If it takes only some of B's columns at first, even less must arrive, and
    their part of C is copied out while the others are computed.

    Args:
        problem: The product.
        cut: How it is cut.
        buffers: Buffers on the device, which may be smaller than the cut wants.
    """
    first_rows, panel_rows = min(cut.first_rows, buffers.rows), min(cut.panel_rows, buffers.rows)
    panels = cut_rows(problem, first_rows, panel_rows, cut.last_rows)
    return _assign_slots(problem, buffers, list(_list_parts(problem, buffers, panels, cut)))


class _Part(NamedTuple):
    """A step before it has buffers; `leads` if it is in the first panel of its `group`."""

    rows: range
    group: range
    columns: range
    depth: range
    a_depth: range
    leads: bool


def _list_parts(
    problem: PanelProblem, buffers: Buffers, panels: list[range], cut: Cut
) -> Iterator[_Part]:
    depths = _divide(problem.k, buffers.depth)
    first_depths = _divide(problem.k, min(buffers.depth, cut.depth))
    for group in _divide(problem.n, buffers.columns):
        for rows in panels:
            leads = rows.start == 0
            if leads and len(group) == problem.n and buffers.depth == problem.k:
                yield from _list_prologue(problem, rows, cut)
                continue
            for depth in first_depths if leads else depths:
                yield _Part(rows, group, group, depth, depth, leads)


def _list_prologue(problem: PanelProblem, rows: range, cut: Cut) -> Iterator[_Part]:
    """The prologue, if all of B fits: some columns along K in steps, then the other columns."""
    columns, depth, nothing = range(problem.n), range(problem.k), range(0)
    first_columns = range(min(cut.columns, problem.n))
    loaded = 0
    for some in _divide(problem.k, cut.depth):
        until = min(problem.k, -(-some.stop // cut.a_depth) * cut.a_depth)
        yield _Part(rows, columns, first_columns, some, range(loaded, until), leads=True)
        loaded = until
    for some in _divide(problem.n, cut.rest_columns, cut.columns):
        yield _Part(rows, columns, some, depth, nothing, leads=True)


class _Fills:
    """Assigns the buffers of one operand in turn, and tracks the last step that uses each."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._content: object = None
        self._last_users: list[int] = []

    def take(self, index: int, content: object) -> tuple[int, int]:
        """The buffer for a step's content, and the last step that needs its earlier content."""
        users = self._last_users
        if content != self._content:
            self._content = content
            users.append(index)
        else:
            users[-1] = index
        fill = len(users) - 1
        earlier = fill - self._slots
        return fill % self._slots, users[earlier] if earlier >= 0 else -1


def _assign_slots(problem: PanelProblem, buffers: Buffers, parts: list[_Part]) -> Iterator[Step]:
    """Assign buffers to each part, with the steps after which they are free."""
    cuts_k, b_resident = buffers.depth < problem.k, problem.b_resident
    a, b, c = map(_Fills, (buffers.a_slots, buffers.b_slots, buffers.c_slots))
    # Where A and C change together, and B never, their buffers need not be found again.
    c_as_a = not cuts_k and buffers.a_slots == buffers.c_slots
    changes_b = not b_resident and (cuts_k or len({part.group.start for part in parts}) > 1)
    for index, (rows, group, columns, depth, a_depth, leads) in enumerate(parts):
        begins_b = cuts_k or leads
        panel = group.start, rows.start
        content = (*panel, depth.start) if cuts_k else panel
        a_slot, follows = a.take(index, content)
        b_slot = 0
        c_slot, c_follows = (a_slot, follows) if c_as_a else c.take(index, panel)
        if changes_b:
            b_slot, b_free = b.take(index, content if cuts_k else group.start)
            follows = max(follows, b_free)
        # By place, in the order of Step: the planner makes thousands, and names take longer.
        yield Step(
            rows, columns, depth,
            0 if cuts_k else depth.start, len(depth) if cuts_k else problem.k, group,
            a_depth, a_slot, b_slot, c_slot,
            begins_b, begins_b and not b_resident, depth.start == 0, depth.stop == problem.k,
            follows, c_follows,
        )  # fmt: skip


def _divide(length: int, size: int, first: int = 0) -> list[range]:
    """Ranges of at most `size` that cover `first`…length."""
    return [range(start, min(start + size, length)) for start in range(first, length, size)]
