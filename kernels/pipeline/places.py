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
        m, n, k, skipped = len(step.rows), len(step.columns), len(step.depth), step.depth_offset
        a_pitch = pitch_items(step.buffer_depth, item_bytes)
        pitch = pitch_items(len(step.buffer_columns), item_bytes)
        left = step.columns.start - step.buffer_columns.start
        a = start + step.a_slot * buffers.a_bytes
        b = first_b + step.b_slot * buffers.b_bytes
        c = first_c + step.c_slot * buffers.c_bytes
        arrived = skipped + step.a_depth.start - step.depth.start
        memory = SplitMemory(splits, step.buffer_depth, skipped, step.begins_b)
        if resident_b is None:
            place_of_b = Layout(b + (skipped * pitch + left) * item_bytes, k, n, pitch, item_bytes)
        else:
            place_of_b = resident_b.cut(step.depth, step.columns)
        return PlacedStep(
            step,
            Layout(a + skipped * item_bytes, m, k, a_pitch, item_bytes),
            Layout(a + arrived * item_bytes, m, len(step.a_depth), a_pitch, item_bytes),
            place_of_b,
            Layout(c + left * item_bytes, m, n, pitch, item_bytes),
            memory if buffers.split_bytes else None,
        )

    return tuple(place(step) for step in plan.steps)
