"""The prepared steps of a product: their addresses in device memory, and their launches."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wavetrim.kernels.gemm.bulk import Workspace
from wavetrim.kernels.gemm.dispatch import prepare_product
from wavetrim.kernels.gemm.operands import Layout, Product
from wavetrim.kernels.gemm.prepared import PreparedLaunch
from wavetrim.kernels.gemm.terms import TermMemory
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.schedule.buffers import pitch_items
from wavetrim.kernels.schedule.steps import Step, StepPlan

if TYPE_CHECKING:
    from wavetrim.kernels.pipeline.command_buffer import CommandBuffer


@dataclass(frozen=True, slots=True, eq=False)
class StepLayout:
    """A step with the layouts of its parts of A, B and C. It equals only itself.

    Attributes:
        step: The step.
        a: Layout of A[rows, depth].
        a_in: Layout of A[rows, a_depth], which is copied in.
        b: Layout of B[depth, columns].
        c: Layout of C[rows, columns].
        terms: Memory for the terms of A and B; None for kernels without terms.
    """

    step: Step
    a: Layout
    a_in: Layout
    b: Layout
    c: Layout
    terms: TermMemory | None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSteps:
    """The steps of all products of one kernel, shape and cut, with the same factors.

    Attributes:
        layouts: The steps, in order.
        launches: The launch of each.
        commands: The steps as commands, by what else decides them; `CommandPath` fills it.
    """

    layouts: tuple[StepLayout, ...]
    launches: tuple[PreparedLaunch, ...]
    commands: dict[object, "CommandBuffer"] = field(default_factory=dict)

    @property
    def is_lasting(self) -> bool:
        """Whether they may be cached."""
        return all(launch.lasting for launch in self.launches)


def prepare_steps(
    layouts: tuple[StepLayout, ...], product: HostProduct, cache_dir: Path, workspace: Workspace
) -> PreparedSteps:
    """Prepare the launches of steps, on the current device and in CuPy's current stream.

    Args:
        layouts: The steps, in order.
        product: A product of these steps; no reference to its operands stays.
        cache_dir: Folder of compiled kernels.
        workspace: Memory for partial sums of tiles.

    Raises:
        KernelsError: As for `prepare_product`.
    """
    launches = (
        prepare_product(
            product.spec,
            Product(
                *(one.a, one.b, one.c, one.a.columns, product.alpha),
                product.beta if one.step.first else 1.0,
            ),
            cache_dir,
            sms=product.sms,
            terms=one.terms,
            workspace=workspace,
        )
        for one in layouts
    )
    return PreparedSteps(layouts, tuple(launches))


def lay_out_steps(
    plan: StepPlan, start: int, resident_b: Layout | None = None
) -> tuple[StepLayout, ...]:
    """Give each step its addresses: the buffers of A, B and C lie in this order, then the terms.

    Args:
        plan: The plan.
        start: Address of device memory of the size of all buffers.
        resident_b: Layout of all of a resident B; None if B has buffers.
    """
    buffers, item_bytes = plan.buffers, plan.buffers.item_bytes
    first_b = start + buffers.slots * buffers.a_bytes
    first_c = first_b + buffers.b_slots * buffers.b_bytes
    terms = first_c + buffers.slots * buffers.c_bytes

    def lay_out_step(step: Step) -> StepLayout:
        rows, depth, width = range(len(step.rows)), step.buffer_depth, len(step.columns)
        a = lay_out(start + step.a_slot * buffers.a_bytes, len(rows), depth, item_bytes)
        b = lay_out(first_b + step.b_slot * buffers.b_bytes, depth, width, item_bytes)
        c = lay_out(first_c + step.c_slot * buffers.c_bytes, len(rows), width, item_bytes)
        shift = step.depth_offset - step.depth.start
        used = range(step.depth.start + shift, step.depth.stop + shift)
        copied = range(step.a_depth.start + shift, step.a_depth.stop + shift)
        if resident_b is None:
            b_layout = b.cut(used, range(width))
        else:
            b_layout = resident_b.cut(step.depth, step.columns)
        memory = TermMemory(terms, depth, step.depth_offset, step.begins_b)
        return StepLayout(
            step,
            a.cut(rows, used),
            a.cut(rows, copied),
            b_layout,
            c.cut(rows, range(width)),
            memory if buffers.term_bytes else None,
        )

    return tuple(lay_out_step(step) for step in plan.steps)


def lay_out(pointer: int, rows: int, columns: int, item_bytes: int) -> Layout:
    """A matrix that fills a buffer, with the padding of its rows."""
    pitch = pitch_items(columns, item_bytes)
    return Layout(pointer, rows, columns, pitch, item_bytes, padding=pitch - columns)
