"""The profiles of a machine that runs products, whether it was calibrated or not."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from wavetrim.scheduler.calibration.cpu import measure_cpu_quickly
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.product import NOTHING
from wavetrim.scheduler.profile.machine import CpuModel
from wavetrim.scheduler.profile.provider import ProfileProvider


def open_profiles(
    executor: Executor, directory: Path | None, *, lock: AbstractContextManager[Any] = NOTHING
) -> ProfileProvider:
    """The profiles of an executor's machine; its CPU is measured quickly if never calibrated."""

    def measure() -> CpuModel:
        with lock:
            return measure_cpu_quickly(executor.pool)

    return ProfileProvider(
        directory=directory,
        devices=executor.devices,
        cpu_threads=executor.pool.threads,
        measure_cpu=measure,
    )
