"""Fits a kernel's staircase to measured launches: blocks of a wave, launch cost, cost of a wave."""

from collections.abc import Sequence
from dataclasses import dataclass

from wavetrim.scheduler.model.waves import divide_up


@dataclass(frozen=True, slots=True)
class Step:
    """One measured launch.

    Attributes:
        rounds: Tiles as a multiple of the GPU's multiprocessors.
        seconds: Seconds of the launch.
    """

    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Staircase:
    """The fit: seconds = launch + ⌈rounds / blocks⌉ x wave.

    Attributes:
        blocks: Tiles of a wave on one multiprocessor.
        launch_seconds: Latency of the launch, at least 0.
        wave_seconds: Seconds of one wave.
        error: Root of the mean squared error, as a share of the largest measurement.
    """

    blocks: int
    launch_seconds: float
    wave_seconds: float
    error: float


def fit_staircase(steps: Sequence[Step], most_blocks: int) -> Staircase:
    """The staircase with the least squared error, among all with up to `most_blocks` blocks.

    If several fit about as well (within a tenth of the least error), the one with fewest blocks:
    finer steps promise less gain from removing a wave.
    """
    fits = [_fit_line(steps, blocks) for blocks in range(1, most_blocks + 1)]
    least = min(fit.error for fit in fits)
    return next(fit for fit in fits if fit.error <= least * 1.1 + 1e-12)


def _fit_line(steps: Sequence[Step], blocks: int) -> Staircase:
    """Least squares of seconds over waves of this number of blocks."""
    waves = [divide_up(step.rounds, blocks) for step in steps]
    seconds = [step.seconds for step in steps]
    count = len(steps)
    mean_waves, mean_seconds = sum(waves) / count, sum(seconds) / count
    spread = sum((wave - mean_waves) ** 2 for wave in waves)
    if spread == 0:
        slope = mean_seconds / mean_waves
    else:
        pairs = zip(waves, seconds, strict=True)
        slope = sum((w - mean_waves) * (s - mean_seconds) for w, s in pairs) / spread
    launch = max(0.0, mean_seconds - slope * mean_waves)
    if launch == 0.0:
        slope = mean_seconds / mean_waves
    residuals = (launch + slope * w - s for w, s in zip(waves, seconds, strict=True))
    error = (sum(residual**2 for residual in residuals) / count) ** 0.5 / max(seconds)
    return Staircase(blocks, launch, slope, error)
