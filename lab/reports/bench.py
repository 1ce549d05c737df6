"""The machine of an experiment, and how it reports progress."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wavetrim.cpu.model import find_cpu_name
from wavetrim.kernels.device import DeviceInfo, explain_no_devices
from wavetrim.kernels.errors import DeviceUnavailable

NO_GPU: Final = DeviceInfo(-1, "none", "", (0, 0), 0, 0, 0, 0, "", "")
"""What experiments without a GPU report as their GPU."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware of a measurement.

    Attributes:
        gpu: Name of the GPU; "none" if none was used.
        sm_count: Number of its multiprocessors.
        driver: Version of its driver.
        cpu: Name of the CPU.
        cpu_threads: CPU threads used.
    """

    gpu: str
    sm_count: int
    driver: str
    cpu: str
    cpu_threads: int

    def __str__(self) -> str:
        if self.gpu == NO_GPU.name:
            return f"{self.cpu} ({self.cpu_threads} threads)"
        return (
            f"{self.gpu} ({self.sm_count} multiprocessors, driver {self.driver}), "
            f"{self.cpu} ({self.cpu_threads} threads)"
        )


def _keep_quiet(share: float, what: str) -> None:
    del share, what


@dataclass(frozen=True, slots=True)
class Bench:
    """A machine to measure.

    Attributes:
        device: The GPU, or `NO_GPU`.
        cache_dir: Folder of compiled kernels.
        cpu_threads: Threads of the CPU path.
        gpu_memory_bytes: GPU memory that products in host memory may use; None for all free memory.
        others: Further GPUs, for experiments with two.
        tell: Called with the finished share, 0…1, and what is measured next.
    """

    device: DeviceInfo
    cache_dir: Path
    cpu_threads: int
    gpu_memory_bytes: int | None = None
    others: tuple[DeviceInfo, ...] = ()
    tell: Callable[[float, str], None] = field(default=_keep_quiet)

    @property
    def hardware(self) -> Hardware:
        """The GPU and CPU to be named in reports."""
        device = self.device
        return Hardware(
            device.name, device.sm_count, device.driver_version, find_cpu_name(), self.cpu_threads
        )


def pick_device(
    devices: Sequence[DeviceInfo], choice: str | None, *, needs_gpu: bool = True
) -> DeviceInfo:
    """The GPU to measure: the first of those that may be used.

    Args:
        devices: The GPUs that may be used.
        choice: The setting WAVETRIM_DEVICES; None if it is not set.
        needs_gpu: If not, `NO_GPU` takes the place of a GPU that is not there.
    """
    if devices:
        return devices[0]
    if not needs_gpu:
        return NO_GPU
    reason = explain_no_devices(choice)
    raise DeviceUnavailable(f"this experiment measures a CUDA GPU, and there is none: {reason}")
