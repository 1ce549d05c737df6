"""Measures the rates of a GPU's kernels: one launch of several full waves each.

rate = flops / (seconds - bytes of C / bandwidth of the GPU's memory)
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.whole_tiles import KernelProbe
from wavetrim.scheduler.profile.machine import GpuModel, KernelRate

Report = Callable[[str, float], None]
"""Called with what is being measured and the finished share, 0…1."""

_ROUNDS: Final = 12
"""Tiles of a launch for each multiprocessor: full waves with 1, 2, 3, 4, 6 or 12 blocks on each.
Chosen."""

_K: Final = 2048
_LAUNCHES: Final = 3
"""K, and launches whose median counts; chosen."""

_MEASURED: Final = "float32", "float64", "float16"
"""Element types that are measured. bfloat16 has float16's rates, complex types are estimated."""


def list_measured(gpu: GpuModel) -> tuple[KernelSpec, ...]:
    """The kernels that plans may take on a GPU and whose rates are measured."""
    return tuple(
        spec
        for spec in list_kernels(compute_capability=gpu.compute_capability)
        if spec.automatic and spec.dtype in _MEASURED
    )


def measure_kernels(
    gpu: GpuModel, device_index: int, cache_dir: Path, source: str, *, tell: Report
) -> tuple[KernelRate, ...]:
    """The rates of the kernels that plans may take."""
    specs = list_measured(gpu)
    rates: list[KernelRate] = []
    for done, spec in enumerate(specs):
        tell(spec.label, done / len(specs))
        probe = KernelProbe(
            spec, sm_count=gpu.sm_count, device_index=device_index, cache_dir=cache_dir
        )
        timing = probe.measure(_ROUNDS, _K, repeats=_LAUNCHES)
        c_elements = timing.rows * timing.n
        c_seconds = 1e-9 * spec.item_bytes * c_elements / gpu.memory_gbytes_per_second
        seconds = max(timing.seconds - c_seconds, timing.seconds / 2)
        gflops = 2e-9 * c_elements * _K / seconds
        rate = KernelRate(spec.name, spec.dtype, str(spec.tile), gflops, source)
        rates.append(rate)
        if spec.dtype == "float16":
            rates.append(replace(rate, dtype="bfloat16", source=f"{source} in float16"))
    return tuple(rates)
