"""The seconds of one execution, and the predicted seconds of its parts."""

from collections.abc import Sequence
from typing import NamedTuple

from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.scheduler.planning.cpu_rows import CONTENTION
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


def list_ratios(plan: Plan, timings: Timings) -> list[tuple[str, float, float]]:
    """The predicted and the measured seconds of a run's parts.

    Returns:
        For each part the kind of run, its predicted seconds, uncorrected, and its measured seconds.
    """
    gpu, cpu = plan.kinds
    predicted = plan.uncorrected
    if plan.f == plan.problem.m:
        return [(cpu.name, predicted.cpu_seconds, timings.total_seconds)]
    if not plan.f:
        return [(gpu.name, predicted.gpu_seconds, timings.total_seconds)]
    late_seconds = CONTENTION[plan.problem.memory].start_seconds
    return [
        (gpu.name, predicted.gpu_seconds, timings.gpu_seconds),
        (cpu.name, predicted.cpu_seconds, timings.cpu_seconds + late_seconds),
    ]


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


def sum_products(products: Sequence[Timings]) -> Timings:
    """The seconds and rows of several products, one after the other."""
    parts: dict[int, float] = {}
    for position, seconds in (part for one in products for part in one.part_seconds):
        parts[position] = parts.get(position, 0.0) + seconds
    return Timings(
        kernel_seconds=_sum_timed([one.kernel_seconds for one in products]),
        transfer_seconds=_sum_timed([one.transfer_seconds for one in products]),
        gpu_seconds=sum(one.gpu_seconds for one in products),
        cpu_seconds=sum(one.cpu_seconds for one in products),
        total_seconds=sum(one.total_seconds for one in products),
        f_actual=sum(one.f_actual for one in products),
        part_seconds=tuple(parts.items()),
    )


def _sum_timed(seconds: Sequence[float | None]) -> float | None:
    """The sum; None if one was not timed."""
    return None if None in seconds else sum(one or 0.0 for one in seconds)
