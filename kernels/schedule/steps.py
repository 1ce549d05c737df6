"""The steps of a product: its launches in order, and the buffers of each.

A `Cut` is three numbers, and the list of parts follows from it. The planner predicts the time of
that list, and the pipeline runs it: a `Step` is a part with its buffers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from wavetrim.kernels.schedule.buffers import Buffers, fit_buffers
from wavetrim.kernels.schedule.panels import PanelProblem, cut_rows

DEPTH_QUANTUM: Final = 64
"""Parts of K are multiples of this: a multiple of every kernel's step along K."""


class Cut(NamedTuple):
    """How a product is cut.

    Attributes:
        first_rows: Rows of the first panel, which may be computed in parts of K while B arrives.
        panel_rows: Rows of the panels after it; the last ones are smaller.
        depth: Length of these parts; K to wait for all of B.
    """

    first_rows: int
    panel_rows: int
    depth: int


class Part(NamedTuple):
    """One launch: C[rows, columns] ← A[rows, depth] · B[depth, columns], or added to C.

    Attributes:
        rows: Rows of A and C.
        columns: Columns of B and C.
        depth: Columns of A, rows of B.
        begins_b: Whether it is the first part with this B[depth, columns].
    """

    rows: range
    columns: range
    depth: range
    begins_b: bool


class Step(NamedTuple):
    """A part with its buffers.

    Attributes:
        rows: Rows of A and C.
        columns: Columns of B and C, as many as the full buffers have.
        depth: Columns of A, rows of B.
        depth_offset: Offset of `depth` in the buffers of A and B.
        buffer_depth: Columns of A and rows of B that the full buffers have.
        a_slot: Buffer of A.
        b_slot: Buffer of B.
        c_slot: Buffer of C.
        begins_b: Whether it is the first step with this B[depth, columns]: later ones find it on
            the device, with its terms.
        loads_b: Whether to copy in B[depth, columns] first: `begins_b`, unless B is resident.
        first: Whether it is the first step of this part of C: β applies. Later steps add.
        last: Whether it is the last step of this part of C, which is then copied out.
        follows: Index of the last step that uses the earlier content of the buffers of A and B;
            copies in wait for its kernel. -1 for none.
        c_follows: Likewise for the buffer of C; the kernel waits for its copy out.
    """

    rows: range
    columns: range
    depth: range
    depth_offset: int
    buffer_depth: int
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
    """The steps of one product and their buffers. It equals only itself."""

    cut: Cut
    steps: tuple[Step, ...]
    buffers: Buffers


def take_whole(problem: PanelProblem) -> Cut:
    """The cut with a single step."""
    return Cut(first_rows=problem.m, panel_rows=problem.m, depth=problem.k)


@lru_cache(maxsize=1024)
def cut_steps(problem: PanelProblem, cut: Cut, gpu_memory_bytes: int) -> StepPlan:
    """The steps of a product by one cut; panels are smaller if memory is short.

    Raises:
        OperandError: Not even one tile fits; the message names the smallest `gpu_memory_bytes`.
    """
    buffers = fit_buffers(problem, cut.panel_rows, cut.first_rows, gpu_memory_bytes)
    parts = list(list_parts(problem, cut, buffers))
    return StepPlan(cut, tuple(_assign_buffers(problem, buffers, parts)), buffers)


def list_parts(problem: PanelProblem, cut: Cut, buffers: Buffers) -> Iterator[Part]:
    """The parts of a product in order.

    Loops from the outermost: groups of columns (one group if B fits), panels of rows, K. The first
    panel is computed in parts of K, so the GPU starts when the first rows of B have arrived.

    Args:
        problem: The product.
        cut: How it is cut.
        buffers: Buffers on the device, which may be smaller than the cut wants.
    """
    first_rows = min(cut.first_rows, buffers.rows)
    panel_rows = min(cut.panel_rows, buffers.rows)
    depths = list(_divide(problem.k, buffers.depth))
    first_depths = list(_divide(problem.k, min(buffers.depth, cut.depth)))
    cuts_k = buffers.depth < problem.k
    for columns in _divide(problem.n, buffers.columns):
        panels = cut_rows(problem, first_rows, panel_rows)
        first = next(panels)
        for depth in first_depths:
            yield Part(first, columns, depth, True)
        for rows in panels:
            for depth in depths:
                yield Part(rows, columns, depth, cuts_k)


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


def _assign_buffers(problem: PanelProblem, buffers: Buffers, parts: list[Part]) -> Iterator[Step]:
    """Assign buffers to each part, with the steps after which they are free."""
    k, b_resident = problem.k, problem.b_resident
    cuts_k = buffers.depth < k
    a, b, c = map(_Fills, (buffers.a_slots, buffers.b_slots, buffers.c_slots))
    for index, (rows, columns, depth, begins_b) in enumerate(parts):
        panel = columns.start, rows.start
        content = (*panel, depth.start) if cuts_k else panel
        a_slot, follows = a.take(index, content)
        c_slot, c_follows = c.take(index, panel)
        b_slot = 0
        if not b_resident:
            b_slot, b_free = b.take(index, content if cuts_k else columns.start)
            follows = max(follows, b_free)
        yield Step(
            rows=rows,
            columns=columns,
            depth=depth,
            depth_offset=0 if cuts_k else depth.start,
            buffer_depth=len(depth) if cuts_k else k,
            a_slot=a_slot,
            b_slot=b_slot,
            c_slot=c_slot,
            begins_b=begins_b,
            loads_b=begins_b and not b_resident,
            first=depth.start == 0,
            last=depth.stop == k,
            follows=follows,
            c_follows=c_follows,
        )


def _divide(length: int, size: int) -> Iterator[range]:
    """Ranges of at most `size` that cover 0…length."""
    return (range(start, min(start + size, length)) for start in range(0, length, size))
