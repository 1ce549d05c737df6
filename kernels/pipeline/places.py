"""Steps with their addresses in device memory."""

from dataclasses import dataclass

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.splits import SplitMemory
from wavetrim.kernels.schedule.buffers import pitch_items
from wavetrim.kernels.schedule.steps import Step, StepPlan


@dataclass(frozen=True, slots=True, eq=False)
class PlacedStep:
    """A step with the addresses of its parts of A, B and C. It equals only itself.

    Attributes:
        step: The step.
        a: Place of A[rows, depth].
        arriving: Place of A[rows, a_depth], which is copied in.
        b: Place of B[depth, columns].
        c: Place of C[rows, columns].
        splits: Memory for the splits of A and B; None for kernels without splits.
    """

    step: Step
    a: Layout
    arriving: Layout
    b: Layout
    c: Layout
    splits: SplitMemory | None


def place_steps(
    plan: StepPlan, start: int, resident_b: Layout | None = None
) -> tuple[PlacedStep, ...]:
    """Give each step its addresses: the buffers of A, B and C lie in this order, then the splits.

    Args:
        plan: The plan.
        start: Address of device memory of the size of all buffers.
        resident_b: Place of all of B if it is on the device already; None if it has buffers.
    """
    buffers, item_bytes = plan.buffers, plan.buffers.item_bytes
    first_b = start + buffers.a_slots * buffers.a_bytes
    first_c = first_b + buffers.b_slots * buffers.b_bytes
    splits = first_c + buffers.c_slots * buffers.c_bytes

    def place(step: Step) -> PlacedStep:
        rows, depth, width = range(len(step.rows)), step.buffer_depth, len(step.buffer_columns)
        a = lay_out(start + step.a_slot * buffers.a_bytes, len(rows), depth, item_bytes)
        b = lay_out(first_b + step.b_slot * buffers.b_bytes, depth, width, item_bytes)
        c = lay_out(first_c + step.c_slot * buffers.c_bytes, len(rows), width, item_bytes)
        columns = _shift(step.columns, -step.buffer_columns.start)
        shift = step.depth_offset - step.depth.start
        used = _shift(step.depth, shift)
        if resident_b is None:
            place_of_b = b.cut(used, columns)
        else:
            place_of_b = resident_b.cut(step.depth, step.columns)
        memory = SplitMemory(splits, depth, step.depth_offset, step.begins_b)
        return PlacedStep(
            step,
            a.cut(rows, used),
            a.cut(rows, _shift(step.a_depth, shift)),
            place_of_b,
            c.cut(rows, columns),
            memory if buffers.split_bytes else None,
        )

    return tuple(place(step) for step in plan.steps)


def lay_out(pointer: int, rows: int, columns: int, item_bytes: int) -> Layout:
    """A matrix that fills a buffer, with the padding of its rows."""
    pitch = pitch_items(columns, item_bytes)
    return Layout(pointer, rows, columns, pitch, item_bytes, padding=pitch - columns)


def _shift(part: range, by: int) -> range:
    return range(part.start + by, part.stop + by)
