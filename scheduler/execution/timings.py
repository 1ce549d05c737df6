"""The seconds of one execution, and what they say of each part's prediction."""

from collections.abc import Sequence
from typing import NamedTuple

from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.scheduler.model.corrections import Correction, RunClass
from wavetrim.scheduler.model.cost import CpuCurve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.planning.plan import Plan


class Timings(NamedTuple):
    """Seconds of one execution.

    Attributes:
        kernel_seconds: Kernels, by CUDA events, summed over the GPUs; None if they were not timed.
        transfer_seconds: Copies in and out, measured the same way; they overlap kernels.
        gpu_seconds: The GPU part, copies from and to the caller's memory included; the longest of
            several.
        cpu_seconds: The CPU part.
        total_seconds: From the start of both parts to the end of the longer one.
        f_actual: Rows computed by the CPU; those of a product's blocks at a node are added.
        part_seconds: Position and seconds of each GPU's part, in the order of the rows.
    """

    kernel_seconds: float | None
    transfer_seconds: float | None
    gpu_seconds: float
    cpu_seconds: float
    total_seconds: float
    f_actual: int
    part_seconds: tuple[tuple[int, float], ...] = ()

    def as_dict(self) -> dict[str, float | None]:
        """JSON-ready copy: seconds by name, of several GPUs each as `gpu<position>_seconds`."""
        document: dict[str, float | None] = self._asdict()
        del document["part_seconds"]
        if len(self.part_seconds) > 1:
            document.update(
                (f"gpu{position}_seconds", seconds) for position, seconds in self.part_seconds
            )
        return document


def list_part_seconds(
    plan: Plan, total_seconds: float, gpu_seconds: Sequence[float]
) -> tuple[tuple[int, float], ...]:
    """Position and seconds of each GPU's part in a product that one call enqueues and awaits.

    Args:
        plan: Its plan, without a CPU part.
        total_seconds: The call.
        gpu_seconds: Each GPU, from its first command to its last. The call takes longer than the
            slowest, and this is added to all. Empty for one GPU.
    """
    if not gpu_seconds:
        return ((plan.gpu_parts[0].position, total_seconds),)
    call_seconds = total_seconds - max(gpu_seconds)
    pairs = zip(plan.gpu_parts, gpu_seconds, strict=True)
    return tuple([(part.position, call_seconds + seconds) for part, seconds in pairs])


def compare_with_plan(plan: Plan, timings: Timings) -> list[tuple[Correction, float, float]]:
    """What the parts of a run say of their predictions.

    Returns:
        For each part its correction, its predicted seconds without that, and its measured seconds.
        GPUs that are alike have one: the longest of both seconds.
    """
    if plan.f == plan.problem.m or plan.is_gpu_alone:
        correction = plan.corrections[0]
        predicted_seconds = plan.predicted.total_seconds / correction.factor
        return [(correction, predicted_seconds, timings.total_seconds)]
    parts: list[tuple[GpuCurve | CpuCurve, int, float]] = [
        (part.curve, len(part.rows), seconds)
        for part, (_, seconds) in zip(plan.gpu_parts, timings.part_seconds, strict=True)
    ]
    if plan.f:
        parts.append((plan.cpu_curve, plan.f, timings.cpu_seconds + plan.share.late_seconds))
    longest: dict[RunClass, tuple[Correction, float, float]] = {}
    for curve, rows, seconds in parts:
        correction = curve.correction
        predicted_seconds = curve.seconds(rows) / correction.factor
        _, most_predicted, most = longest.get(correction.run_class, (correction, 0.0, 0.0))
        both = max(most_predicted, predicted_seconds), max(most, seconds)
        longest[correction.run_class] = correction, *both
    return [*longest.values()]


def sum_up(
    plan: Plan, gpus: Sequence[GpuTimings], cpu_seconds: float, total_seconds: float
) -> Timings:
    """The seconds of an execution from those of its parts."""
    if plan.is_gpu_alone:
        (gpu,), (part,) = gpus, plan.gpu_parts
        kernels, transfers = gpu.kernel_seconds, gpu.transfer_seconds
        part_seconds = ((part.position, gpu.gpu_seconds),)
        return Timings(kernels, transfers, total_seconds, 0.0, total_seconds, 0, part_seconds)
    return Timings(
        kernel_seconds=_sum_timed([gpu.kernel_seconds for gpu in gpus]),
        transfer_seconds=_sum_timed([gpu.transfer_seconds for gpu in gpus]),
        gpu_seconds=max((gpu.gpu_seconds for gpu in gpus), default=0.0),
        cpu_seconds=cpu_seconds,
        total_seconds=total_seconds,
        f_actual=plan.f,
        part_seconds=tuple(
            (part.position, gpu.gpu_seconds) for part, gpu in zip(plan.gpu_parts, gpus, strict=True)
        ),
    )


def _sum_timed(seconds: Sequence[float | None]) -> float | None:
    """The sum; None if one was not timed."""
    return None if None in seconds else sum(one or 0.0 for one in seconds)
