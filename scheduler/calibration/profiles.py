"""The profiles of a machine that runs products, whether it was calibrated or not."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from wavetrim.scheduler.calibration.cpu import measure_cpu_briefly
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.product import NOTHING
from wavetrim.scheduler.model.cpu import CpuModel
from wavetrim.scheduler.profile.provider import ProfileProvider


def open_profiles(
    executor: Executor, directory: Path | None, *, turn: AbstractContextManager[Any] = NOTHING
) -> ProfileProvider:
    """The profiles of an executor's machine; its CPU is measured briefly if never calibrated.

    Args:
        executor: Runs products.
        directory: Folder of stored calibrations; None for none.
        turn: Held while the CPU is measured, which computes.
    """

    def measure() -> CpuModel:
        with turn:
            return measure_cpu_briefly(executor.pool)

    return ProfileProvider(
        directory=directory,
        devices=executor.devices,
        cpu_threads=executor.pool.threads,
        measure_cpu=measure,
    )
