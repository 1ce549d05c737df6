"""The profiles of a machine that runs products, whether it was calibrated or not."""

from pathlib import Path

from wavetrim.scheduler.calibration.cpu import measure_cpu_briefly
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.profile.provider import ProfileProvider


def open_profiles(executor: Executor, directory: Path | None) -> ProfileProvider:
    """The profiles of an executor's machine; its CPU is measured briefly if never calibrated.

    Args:
        executor: Runs products.
        directory: Folder of stored calibrations; None for none.
    """
    return ProfileProvider(
        directory=directory,
        devices=executor.devices,
        cpu_threads=executor.pool.threads,
        measure_cpu=lambda: measure_cpu_briefly(executor.pool),
    )
