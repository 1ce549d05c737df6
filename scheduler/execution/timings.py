"""The seconds of one execution, and which are recorded to correct later predictions."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wavetrim.kernels.pipeline.host_product import GpuTimings
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.planning.cpu_rows import CONTENTION
from wavetrim.scheduler.planning.plan import Plan

SAMPLED_SECONDS: Final = 5e-4
"""Predicted time below which only some runs are recorded; chosen."""

SAMPLED_EVERY: Final = 7
"""One of this many such runs is recorded. Chosen: recording takes some microseconds, and an odd
number records both kinds of runs that alternate."""


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


def list_ratios(plan: Plan, timings: Timings) -> list[tuple[str, float, float]]:
    """The kind of each part of a run, its predicted seconds, uncorrected, and its measured ones."""
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
    parts = tuple(
        (part.position, gpu.gpu_seconds) for part, gpu in zip(plan.gpu_parts, gpus, strict=True)
    )
    longest = max((seconds for _, seconds in parts), default=0.0)
    return Timings(
        kernel_seconds=_sum_timed([gpu.kernel_seconds for gpu in gpus]),
        transfer_seconds=_sum_timed([gpu.transfer_seconds for gpu in gpus]),
        gpu_seconds=total_seconds if plan.is_gpu_alone else longest,
        cpu_seconds=cpu_seconds,
        total_seconds=total_seconds,
        f_actual=plan.f,
        part_seconds=parts,
    )


def _sum_timed(seconds: Sequence[float | None]) -> float | None:
    """The sum; None if one was not timed."""
    return None if None in seconds else sum(one or 0.0 for one in seconds)


class RunNotes:
    """Records the runs of one executor in the corrections of their plans' profiles."""

    def __init__(self) -> None:
        self._warm: set[tuple[KernelSpec | None, tuple[int, ...]]] = set()
        self._sampled_runs = 0
        # By identity: comparing kernels takes longer than enqueueing one.
        self._last: Plan | None = None

    def has_run(self, plan: Plan) -> bool:
        """Whether the plan's kernel has run on its GPUs."""
        return (plan.spec, plan.positions) in self._warm

    def note(self, plan: Plan, timings: Timings, *, alone: bool) -> None:
        """Record the time of each part of a product that ran alone.

        A kernel's first run, which loads it, is not recorded, and of short ones only some are.
        """
        if plan.uncorrected.total_seconds < SAMPLED_SECONDS:
            self._sampled_runs += 1
            alone = alone and self._sampled_runs % SAMPLED_EVERY == 0
        if plan is not self._last and not self.has_run(plan):
            self._warm.add((plan.spec, plan.positions))
        elif alone:
            for kind, predicted_seconds, seconds in list_ratios(plan, timings):
                plan.profile.corrections.note(kind, predicted_seconds, seconds)
        self._last = plan
