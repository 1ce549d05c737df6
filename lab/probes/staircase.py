"""A kernel's staircase from measured launches: seconds = launch + ⌈tiles / slots⌉ · wave."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.whole_tiles import KernelProbe

# All chosen.
_SHORT_K, _LONG_K = 512, 2048  # of the measured launches
_REPEATS: Final = 3  # launches whose median counts
_WAVES: Final = 8  # of each launch that is timed back to back
_SUSTAINED_SECONDS: Final = 0.06  # of such launches
_THREADS_AN_SM: Final = 2048  # most that a fit assumes
_MOST_BLOCKS: Final = 16  # of a multiprocessor, most that a fit assumes


@dataclass(frozen=True, slots=True)
class KernelModel:
    """Times of one kernel on one GPU.

    Attributes:
        kernel: Name in the catalog.
        dtype: Element type.
        tile: Its tile as text, rows x columns x step along K.
        slots: Blocks of a wave on the whole GPU, as the staircase shows them.
        launch_seconds: Latency of a launch.
        wave_seconds: Seconds of one wave that do not depend on K.
        wave_k_seconds: Seconds of one wave for each unit of K.
    """

    kernel: str
    dtype: str
    tile: str
    slots: int
    launch_seconds: float
    wave_seconds: float
    wave_k_seconds: float


class Fit(NamedTuple):
    """A staircase over tiles as a multiple of the GPU's multiprocessors, and its squared error."""

    blocks: int
    launch_seconds: float
    wave_seconds: float
    error: float


def measure_kernel(spec: KernelSpec, info: DeviceInfo, cache_dir: Path) -> KernelModel:
    """The times of one kernel: slots from a staircase at one K, the time of a wave from two K."""
    probe = KernelProbe(spec, sm_count=info.sm_count, device_index=info.index, cache_dir=cache_dir)
    most_blocks = min(_MOST_BLOCKS, max(1, _THREADS_AN_SM // spec.threads))
    if spec.stream_k_tail:
        most_blocks = 1  # one persistent block for each multiprocessor
    rounds = sorted({*range(1, 9), *range(10, 2 * most_blocks + 1, 3)})
    seconds = [probe.measure(count, _SHORT_K, _REPEATS).seconds for count in rounds]
    stairs = fit_staircase(rounds, seconds, most_blocks)
    # cuBLAS has other kernels for few tiles, so its staircase begins too high.
    launch_seconds = min(stairs.launch_seconds, probe.measure_launch(_REPEATS))
    short, long = (
        probe.measure_sustained(_WAVES * stairs.blocks, k, _SUSTAINED_SECONDS).seconds / _WAVES
        for k in (_SHORT_K, _LONG_K)
    )
    wave_k_seconds = max(0.0, long - short) / (_LONG_K - _SHORT_K)
    wave_seconds = max(0.0, short - launch_seconds / _WAVES - wave_k_seconds * _SHORT_K)
    named, slots = (spec.name, spec.dtype, str(spec.tile)), stairs.blocks * info.sm_count
    return KernelModel(*named, slots, launch_seconds, wave_seconds, wave_k_seconds)


def fit_staircase(rounds: Sequence[int], seconds: Sequence[float], most_blocks: int) -> Fit:
    """The staircase with the least squared error, among those of up to `most_blocks` blocks.

    If several fit about as well, the one with the fewest blocks: its steps are the finest.
    """
    fits = [_fit_line(rounds, np.array(seconds), blocks) for blocks in range(1, most_blocks + 1)]
    least = min(fit.error for fit in fits)
    return next(fit for fit in fits if fit.error <= 1.2 * least + 1e-24)


def _fit_line(rounds: Sequence[int], seconds: np.ndarray, blocks: int) -> Fit:
    """Least squares of seconds over waves of `blocks` blocks; a launch takes no less than 0."""
    waves = np.ceil(np.array(rounds) / blocks)
    centred = waves - waves.mean()
    spread = float(centred @ centred)
    wave_seconds = float(centred @ seconds) / spread if spread else 0.0
    launch_seconds = float(seconds.mean() - wave_seconds * waves.mean())
    if launch_seconds < 0 or not spread:
        launch_seconds, wave_seconds = 0.0, float(seconds.mean() / waves.mean())
    errors = launch_seconds + wave_seconds * waves - seconds
    return Fit(blocks, launch_seconds, wave_seconds, float(errors @ errors))
