"""Measures the kernels of a GPU, those that are likely fastest first, until the time is over."""

import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Final

from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.whole_tiles import KernelProbe
from wavetrim.scheduler.calibration.repetition import find_possible
from wavetrim.scheduler.calibration.staircase import Step, fit_staircase
from wavetrim.scheduler.profile.estimate import estimate_kernel, find_peak_gflops
from wavetrim.scheduler.profile.machine import GpuModel, KernelModel
from wavetrim.scheduler.profile.store import describe_gpu

Report = Callable[[str, float], None]
"""Called with what is being measured and the finished share, 0…1."""

_SHORT_K, _LONG_K = 512, 2048
"""K of the measured launches; chosen."""

_SUSTAINED_SECONDS: Final = 0.06
"""Time of a measurement of consecutive launches; chosen."""

_FIRST: Final = "float32", "float64"
"""Element types whose kernels come before those of the others, which have few to choose from."""

_LAUNCH_SECONDS: Final = 1e-4
"""Least time of consecutive launches, so that enqueueing them takes less; chosen."""

_ABOVE: Final = 1.25
"""By how much a measured rate may be above the data sheet's peak, or above the assumed rate if that
is higher; chosen."""

_THREADS_AN_SM: Final = 2048
_MOST_BLOCKS: Final = 16
"""Most threads and blocks of a multiprocessor that a fit supposes; chosen."""


def measure_kernels(
    gpu: GpuModel, info: DeviceInfo, cache_dir: Path, source: str, *, until: float, tell: Report
) -> tuple[KernelModel, ...]:
    """The times of as many kernels as there is time for, the likely winners first.

    Args:
        gpu: Data sheet of the GPU.
        info: The GPU.
        cache_dir: Folder of compiled kernels.
        source: Source that the figures name.
        until: Time (`time.perf_counter`) by which all should be done: no kernel is begun that would
            end later if it took as long as the longest so far.
        tell: Called with the kernel that is measured.
    """
    specs = order_kernels(gpu)
    models: list[KernelModel] = []
    longest_seconds = 0.0
    for spec in specs:
        began = time.perf_counter()
        if began + longest_seconds > until:
            break
        tell(spec.label, len(models) / len(specs))
        models.append(measure_kernel(spec, info, cache_dir, source))
        longest_seconds = max(longest_seconds, time.perf_counter() - began)
    return tuple(models)


def order_kernels(gpu: GpuModel) -> tuple[KernelSpec, ...]:
    """The kernels of a GPU, the likely winners first.

    Those that plans take without being asked come before others, and the usual element types before
    others. Then the rank is the estimated rate as a share of the element type's highest.
    """
    specs = list_kernels(compute_capability=gpu.compute_capability)
    rates = {spec: _assume_rate(gpu, spec) for spec in specs}
    # Less accurate than NumPy, or only taken if named.
    asked = {spec for spec in specs if spec.accuracy == "float32" or not spec.automatic}
    highest = {
        dtype: max(rates[spec] for spec in specs if spec.dtype == dtype and spec not in asked)
        for dtype in {spec.dtype for spec in specs}
    }

    def rank(spec: KernelSpec) -> tuple[bool, bool, float]:
        return spec in asked, spec.dtype not in _FIRST, -rates[spec] / highest[spec.dtype]

    return tuple(sorted(specs, key=rank))


def _assume_rate(gpu: GpuModel, spec: KernelSpec) -> float:
    """Estimated rate: elements of C a second for each unit of K."""
    model = estimate_kernel(gpu, spec)
    return spec.tile.m * spec.tile.n * model.slots / model.wave_k_seconds


def measure_kernel(spec: KernelSpec, info: DeviceInfo, cache_dir: Path, source: str) -> KernelModel:
    """The times of one kernel: slots from a staircase at one K, the cost of a wave from two."""
    probe = KernelProbe(spec, sm_count=info.sm_count, device_index=info.index, cache_dir=cache_dir)
    most_blocks = min(_MOST_BLOCKS, max(1, _THREADS_AN_SM // spec.threads))
    if spec.splits_tail:
        most_blocks = 1  # one persistent block for each multiprocessor
    rounds = sorted({*range(1, 9), *range(10, 2 * most_blocks + 1, 3)})
    steps = [Step(count, probe.measure(count, _SHORT_K, repeats=3).seconds) for count in rounds]
    stairs = fit_staircase(steps, most_blocks)
    # A launch takes at most as long as the least product. A library that has other kernels for few
    # tiles makes the staircase begin too high.
    launch_seconds = min(stairs.launch_seconds, probe.measure_launch(repeats=3))
    slots = stairs.blocks * info.sm_count
    assumed_seconds, peak_seconds = _assume_depth_seconds(describe_gpu(info), spec, slots)
    waves = 4 * ceil(_LAUNCH_SECONDS / (4 * _SHORT_K * assumed_seconds))

    def measure_wave(k: int) -> float:
        return probe.measure_sustained(waves * stairs.blocks, k, _SUSTAINED_SECONDS).seconds / waves

    short, wave_k_seconds = find_wave(measure_wave, min(assumed_seconds, peak_seconds) / _ABOVE)
    wave_seconds = max(0.0, short - launch_seconds / waves - wave_k_seconds * _SHORT_K)
    return KernelModel(
        kernel=spec.name,
        dtype=spec.dtype,
        tile=str(spec.tile),
        slots=slots,
        launch_seconds=launch_seconds,
        wave_seconds=wave_seconds,
        wave_k_seconds=wave_k_seconds,
        source=source,
    )


def _assume_depth_seconds(gpu: GpuModel, spec: KernelSpec, slots: int) -> tuple[float, float]:
    """What a unit of K adds to a wave at the assumed rate, and at the data sheet's peak."""
    elements = spec.tile.m * spec.tile.n * slots
    return elements / _assume_rate(gpu, spec), 2e-9 * elements / find_peak_gflops(gpu, spec)


def find_wave(measure: Callable[[int], float], least_seconds: float) -> tuple[float, float]:
    """Seconds of a wave at the shorter K, and what each unit of K adds.

    Both are measured again if the kernel seems to be faster than it can be.

    Args:
        measure: Returns the seconds of a wave at a K.
        least_seconds: Least seconds that a unit of K adds, taken if no measurement is possible.
    """

    def measure_both() -> tuple[float, float]:
        short, long = measure(_SHORT_K), measure(_LONG_K)
        return short, (long - short) / (_LONG_K - _SHORT_K)

    found = find_possible(measure_both, lambda wave: wave[1] >= least_seconds)
    return found or (_SHORT_K * least_seconds, least_seconds)
