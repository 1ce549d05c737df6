"""The launches of one product, in order, and which buffer each one works in."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wavetrim.kernels.buffers import Buffers, fit_buffers
from wavetrim.kernels.feeding import Lead, find_rest_width
from wavetrim.kernels.leading import choose_lead
from wavetrim.kernels.panels import PanelProblem, choose_panel_rows, cut_rows

B_STEP_BYTES: Final = 12 << 20
LEADING_STEPS: Final = 6
"""The first panel waits for about so many bytes of B, and takes so many steps at most. Each step
reads and writes C once more, and its kernel starts and ends once more."""

DEPTH_QUANTUM: Final = 64


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

    steps: tuple[Step, ...]
    buffers: Buffers


@lru_cache(maxsize=256)
def plan_steps(problem: PanelProblem, gpu_memory_bytes: int) -> StepPlan:
    """Cut a product into steps whose buffers take at most `gpu_memory_bytes`.

    Columns are outermost (one group where B fits), then panels of rows, then K. The first panel
    of a group goes through K in steps even where K fits, so that the GPU starts when the first
    rows of B have arrived and not the last; but for products that copy A in for longer. It may do
    so with some of B's columns, for which less must arrive and of which C leaves while the others
    are computed. Where C takes longer to copy out than to compute it goes through B's columns only,
    so that the first ones of C leave when those of B have arrived.

    Raises:
        OperandError: Not even one tile fits; the message names the least `gpu_memory_bytes`.
    """
    panel_rows = choose_panel_rows(problem)
    lead = choose_lead(problem)
    buffers = fit_buffers(problem, panel_rows, lead.rows, gpu_memory_bytes)
    first_rows = buffers.rows
    if problem.leading_parts > 1:
        first_rows = min(first_rows, lead.rows)
    panels = cut_rows(problem, first_rows, min(panel_rows, buffers.rows))
    parts = list(_list_parts(problem, buffers, panels, lead))
    return StepPlan(tuple(_assign_slots(problem, buffers, parts)), buffers)


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
    problem: PanelProblem, buffers: Buffers, panels: list[range], lead: Lead
) -> Iterator[_Part]:
    for group in _cut(problem.n, buffers.columns):
        for rows in panels:
            leads = rows.start == 0
            if leads and len(group) == problem.n and buffers.depth == problem.k:
                yield from _list_leading_parts(problem, rows, lead)
                continue
            size = buffers.depth
            if leads and size == problem.k:
                size = _choose_leading_depth(problem, len(group))
            for depth in _cut(problem.k, size):
                yield _Part(rows, group, group, depth, depth, leads)


def _list_leading_parts(problem: PanelProblem, rows: range, lead: Lead) -> Iterator[_Part]:
    """The first panel, where there is room for all of B: K in steps, then the other columns."""
    columns, depth, nothing = range(problem.n), range(problem.k), range(0)
    by_columns = problem.leading_parts > 1
    step = problem.k if by_columns else _choose_leading_depth(problem, problem.n)
    quantum, loaded = problem.a_quantum, 0
    for some in _cut(problem.k, step):
        until = min(problem.k, -(-some.stop // quantum) * quantum)
        yield _Part(rows, columns, range(lead.columns), some, range(loaded, until), leads=True)
        loaded = until
    width = lead.columns
    if not by_columns:
        width = find_rest_width(problem.n, width, problem.item_bytes, tile_n=problem.tile_n)
    for some in _cut(problem.n, width, lead.columns):
        yield _Part(rows, columns, some, depth, nothing, leads=True)


def _choose_leading_depth(problem: PanelProblem, columns: int) -> int:
    """How much of K the first panel takes at a time."""
    # The sums of float16 lose digits each time they leave the kernel's accumulator.
    if problem.item_bytes == 2 or problem.streams_a:
        return problem.k
    elements = columns + problem.m if problem.goes_deep else columns  # all of A comes in as well
    return cut_depth(problem.k, elements * problem.item_bytes)


def cut_depth(k: int, depth_bytes: int) -> int:
    """How much of K is in each of the steps that the first panel takes, of which none is much less.

    Args:
        k: All of K.
        depth_bytes: Bytes of B, and of A if all of it comes in as well, for each element of K.
    """
    steps = min(-(-k * depth_bytes // B_STEP_BYTES), LEADING_STEPS)
    return -(-k // (steps * DEPTH_QUANTUM)) * DEPTH_QUANTUM


def _assign_slots(problem: PanelProblem, buffers: Buffers, parts: list[_Part]) -> Iterator[Step]:
    """Give each part its buffers, in turn, and name the step after which they are free."""
    cuts_k = buffers.depth < problem.k
    fills: dict[str, list[object]] = {"a": [], "b": [], "c": []}
    last_users: dict[tuple[str, int], int] = {}
    for index, part in enumerate(parts):
        contents = {
            "a": (part.group, part.rows, part.depth.start if cuts_k else 0),
            "b": (part.group, (part.rows, part.depth) if cuts_k else None),
            "c": (part.group, part.rows),
        }
        for name, content in contents.items():
            if not fills[name] or fills[name][-1] != content:
                fills[name].append(content)
            last_users[name, len(fills[name]) - 1] = index
        fill = {name: len(contents) - 1 for name, contents in fills.items()}
        yield Step(
            rows=part.rows,
            columns=part.columns,
            depth=part.depth,
            depth_offset=0 if cuts_k else part.depth.start,
            buffer_depth=len(part.depth) if cuts_k else problem.k,
            buffer_columns=part.group,
            a_depth=part.a_depth,
            a_slot=fill["a"] % buffers.a_slots,
            b_slot=fill["b"] % buffers.b_slots,
            c_slot=fill["c"] % buffers.c_slots,
            loads_b=cuts_k or part.leads,
            first=part.depth.start == 0,
            last=part.depth.stop == problem.k,
            follows=max(
                last_users.get(("a", fill["a"] - buffers.a_slots), -1),
                last_users.get(("b", fill["b"] - buffers.b_slots), -1),
            ),
            c_follows=last_users.get(("c", fill["c"] - buffers.c_slots), -1),
        )


def _cut(length: int, size: int, first: int = 0) -> list[range]:
    """Ranges of at most `size` that cover `first`…length."""
    return [range(start, min(start + size, length)) for start in range(first, length, size)]
