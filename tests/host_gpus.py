"""An engine with GPUs that compute in host memory, for services on a machine without any.

A `sitecustomize` puts `HostPipeline` in the place of `GpuPipeline`; all other parts are real.
"""

from dataclasses import replace

from tests.scheduler.execution.host_pipeline import HostPipeline
from wavetrim.kernels import device
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.scheduler import product
from wavetrim.scheduler.engine import arena, worker
from wavetrim.scheduler.execution import gpus

INFO = DeviceInfo(
    index=0, name="NVIDIA H200", uuid="GPU-0", compute_capability=(9, 0), sm_count=132,
    memory_bytes=141 * 10**9, clock_mhz=1980, memory_clock_mhz=3201, driver_version="580",
    runtime_version="13",
)  # fmt: skip


def write_sitecustomize(folder, *, row_seconds, resident_bytes=0):
    """Write a `sitecustomize` into a folder, for a process's PYTHONPATH; returns the folder."""
    (folder / "sitecustomize.py").write_text(
        "from tests.host_gpus import install\n\n"
        f"install(row_seconds={row_seconds}, resident_bytes={resident_bytes})\n"
    )
    return folder


def install(*, row_seconds, resident_bytes):
    """Put GPUs that compute in host memory in place of real ones, as slow as asked for."""
    HostPipeline.row_seconds = row_seconds
    HostPipeline.resident_bytes = resident_bytes
    device.select_devices = _select
    gpus.GpuPipeline = HostPipeline
    product.is_pinned = lambda _: False
    arena.lock_region = _refuse
    worker.AWAITED_SECONDS = 1e-6


def _select(choice):
    indices = [] if choice in (None, "none") else str(choice).split(",")
    return tuple(replace(INFO, index=int(one), uuid=f"GPU-{one}") for one in indices)


def _refuse(*_, **__):
    raise DeviceFailure("this memory cannot be page-locked")
