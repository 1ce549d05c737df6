"""The steps of a product: its parts in order, each with its buffers and what it waits for.

The planner predicts the time of the list of parts (`cuts`); the pipeline runs these steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from wavetrim.kernels.schedule.buffers import Buffers, fit_buffers
from wavetrim.kernels.schedule.panels import Cut, PanelProblem, Part, list_parts


class Step(NamedTuple):
    """A part with its buffers.

    Attributes:
        rows: Rows of A and C.
        columns: Columns of B and C, as many as the full buffers have.
        depth: Columns of A, rows of B.
        a_depth: Columns of A to copy in first; none if an earlier step copied those of `depth`.
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
    a_depth: range
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


@lru_cache(maxsize=1024)
def cut_steps(problem: PanelProblem, cut: Cut, gpu_memory_bytes: int) -> StepPlan:
    """The steps of a product by one cut; panels are smaller if memory is short.

    Raises:
        OperandError: Not even one tile fits; the message names the smallest `gpu_memory_bytes`.
    """
    buffers = fit_buffers(problem, cut.panel_rows, cut.first_rows, gpu_memory_bytes)
    parts = list_parts(problem, cut, buffers)
    return StepPlan(cut, tuple(_assign_buffers(problem, buffers, parts)), buffers)


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
    a, b, c = map(_Fills, (buffers.slots, buffers.b_slots, buffers.slots))
    for index, (rows, columns, depth, a_depth, begins_b) in enumerate(parts):
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
            a_depth=a_depth,
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
