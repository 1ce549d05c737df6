"""The GPU's cost curve: the fastest schedule of a product, and of fewer of its rows.

The schedule of all rows is searched for (`kernels/pipeline/cuts.py`); for some smaller numbers of
rows the same cut is timed. Between these the curve rises in the steps of the kernel's waves.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from wavetrim.kernels.pipeline.buffers import fit_buffers
from wavetrim.kernels.pipeline.cuts import plan_steps, take_whole
from wavetrim.kernels.pipeline.panels import PanelProblem
from wavetrim.kernels.pipeline.schedule import Rates, Timeline, time_schedule
from wavetrim.kernels.pipeline.steps import Cut, StepPlan, cut_steps
from wavetrim.scheduler.model.corrections import UNCORRECTED, Correction
from wavetrim.scheduler.model.waves import WaveGrid, divide_up

_KNOTS: Final = 8
"""Numbers of rows for which the schedule is timed, all rows among them."""


_PARTS: Final = 32
"""Panels, and parts of K, that are timed of a product that has more."""


@dataclass(frozen=True, slots=True)
class GpuCurve:
    """Rows of C → seconds on the GPU, from the caller's memory back into it.

    Attributes:
        problem: The product, as the pipeline cuts it.
        rates: What the link and the kernel take.
        memory_bytes: Device memory for its buffers.
        alone_rates: What they take with the machine to itself: by these the cut is chosen.
        start_seconds: Seconds that are lost while the CPU part starts.
        correction: What earlier runs of its class say of these figures.
    """

    problem: PanelProblem
    rates: Rates
    memory_bytes: int
    alone_rates: Rates | None = None
    start_seconds: float = 0.0
    correction: Correction = UNCORRECTED

    @property
    def grid(self) -> WaveGrid:
        """Tiles and slots of the kernel on this GPU."""
        problem = self.problem
        return WaveGrid(problem.n, problem.tile_m, problem.tile_n, problem.slots)

    @property
    def split_steps(self) -> int | None:
        """Steps of K in a tile where the kernel splits the last wave along K; else None."""
        problem = self.problem
        return divide_up(problem.k, problem.tile_k) if problem.splits_tail else None

    @property
    def wave_seconds(self) -> float:
        """Seconds of one wave at this K."""
        return self.rates.wave_seconds + self.problem.k * self.rates.depth_seconds

    @property
    def copying_share(self) -> float:
        """For how much of their time copies of all rows are under way, 0…1."""
        timeline = self.find_timeline(self.problem.m)
        return min(1.0, timeline.copying_seconds / timeline.seconds)

    def disturb(
        self, copy_stretch: float, start_seconds: float, correction: Correction = UNCORRECTED
    ) -> "GpuCurve":
        """The curve while the CPU part computes other rows.

        Args:
            copy_stretch: How many times as long copies take.
            start_seconds: What is lost while the CPU part starts.
            correction: What earlier runs with a CPU part say.
        """
        return replace(
            self,
            rates=self.rates.slow_copies(copy_stretch),
            alone_rates=self._cut_rates,
            start_seconds=self.start_seconds + start_seconds,
            correction=correction,
        )

    def find_cut(self, rows: int) -> Cut:
        """The cut of the fastest schedule for `rows` rows."""
        _, plan = self._plan_steps(rows)
        return plan.cut

    def find_timeline(self, rows: int) -> Timeline:
        """When each step of that schedule begins and ends, uncorrected."""
        outline, plan = self._plan_steps(rows)
        return time_schedule(outline, plan.steps, self.rates)

    def _plan_steps(self, rows: int) -> tuple[PanelProblem, StepPlan]:
        outline, _ = _outline(replace(self.problem, m=rows), self.memory_bytes)
        return outline, plan_steps(outline, self.rates, self.memory_bytes)

    @property
    def _cut_rates(self) -> Rates:
        return self.alone_rates or self.rates

    def kernel_seconds(self, rows: int) -> float:
        """Seconds of the kernel alone, in one launch."""
        if rows == 0:
            return 0.0
        problem = self.problem
        return self.rates.find_kernel_seconds(problem, rows, problem.n, problem.k)

    def find_least_seconds(self, rows: int) -> float:
        """What no schedule can go below: the kernel, the copies in and the copies out alone."""
        problem, rates = self.problem, self.rates
        in_bytes = (rows + problem.n) * problem.k * problem.item_bytes
        out_bytes = rows * problem.n * problem.item_bytes
        least_seconds = rates.call_seconds + max(
            self.kernel_seconds(rows),
            in_bytes / rates.in_bytes_per_second,
            out_bytes / rates.out_bytes_per_second,
        )
        return self.correction.factor * least_seconds

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows: 0 without rows, and never less for more rows."""
        if rows == 0:
            return 0.0
        # What is enqueued before the CPU part starts keeps a longer part busy meanwhile.
        seconds = max(self._find_schedule_seconds(rows), self.start_seconds)
        return self.correction.factor * seconds

    def estimate_rows(self, seconds: float) -> float:
        """About how many rows take `seconds`."""
        knots = _time_knots(self.problem, self.rates, self._cut_rates, self.memory_bytes)
        seconds /= self.correction.factor
        before = rows = knot_seconds = 0.0
        for rows, knot_seconds in knots:
            if knot_seconds > seconds:
                break
            before = rows
        return before + (rows - before) * min(1.0, seconds / knot_seconds)

    def _find_schedule_seconds(self, rows: int) -> float:
        known = self.problem, self.rates, self._cut_rates, self.memory_bytes
        if rows == self.problem.m:
            return _time_all_rows(*known)
        knots = _time_knots(*known)
        at = bisect_left(knots, (rows, 0.0))
        until_rows, until_seconds = knots[at]
        if at == 0:
            return until_seconds
        from_rows, from_seconds = knots[at - 1]
        waves, from_waves, until_waves = map(self._count_waves, (rows, from_rows, until_rows))
        if until_waves == from_waves:
            return until_seconds
        share = (waves - from_waves) / (until_waves - from_waves)
        return from_seconds + share * (until_seconds - from_seconds)

    def _count_waves(self, rows: int) -> float:
        steps = self.split_steps
        if steps is None:
            return self.grid.count_waves(rows)
        return self.grid.count_split_waves(rows, steps)


@lru_cache(maxsize=256)
def _time_all_rows(
    problem: PanelProblem, rates: Rates, cut_rates: Rates, memory_bytes: int
) -> float:
    """Seconds of the whole product."""
    outline, times = _outline(problem, memory_bytes)
    plan = plan_steps(outline, cut_rates, memory_bytes)
    return times * time_schedule(outline, plan.steps, rates).seconds


@lru_cache(maxsize=256)
def _time_knots(
    problem: PanelProblem, rates: Rates, cut_rates: Rates, memory_bytes: int
) -> tuple[tuple[int, float], ...]:
    """Some numbers of rows with their seconds, which never fall; the last are all rows."""
    outline, times = _outline(problem, memory_bytes)
    cut = plan_steps(outline, cut_rates, memory_bytes).cut
    all_seconds = _time_all_rows(problem, rates, cut_rates, memory_bytes)
    knots: list[tuple[int, float]] = [(0, 0.0)]
    for part in range(1, _KNOTS):
        rows, some = (divide_up(one.m * part, _KNOTS) for one in (problem, outline))
        seconds = times * _time_rows(replace(outline, m=some), cut, rates, memory_bytes)
        if knots[-1][0] < rows:
            knots.append((rows, min(all_seconds, max(seconds, knots[-1][1]))))
    return (*knots[1:], (problem.m, all_seconds))


def _time_rows(problem: PanelProblem, cut: Cut, rates: Rates, memory_bytes: int) -> float:
    """Seconds with a cut that was chosen for more rows, or in one step if that is faster."""
    whole = take_whole(problem)
    first_rows, panel_rows = min(problem.m, cut.first_rows), min(problem.m, cut.panel_rows)
    clipped = replace(cut, first_rows=first_rows, panel_rows=panel_rows)
    plans = (cut_steps(problem, one, memory_bytes) for one in (clipped, whole))
    return min(time_schedule(problem, plan.steps, rates).seconds for plan in plans)


@lru_cache(maxsize=256)
def _outline(problem: PanelProblem, memory_bytes: int) -> tuple[PanelProblem, float]:
    """A product of fewer steps, and how many times as long the whole one takes.

    Where memory makes so many steps that to time them all takes long, they repeat: a part of the
    rows, of the groups of columns and of K stands for all.
    """
    m, n, k = problem.m, problem.n, problem.k
    rows = max(problem.tile_m, divide_up(m, _PARTS))
    buffers = fit_buffers(problem, rows, rows, memory_bytes)
    some = replace(
        problem,
        m=min(m, _PARTS * buffers.rows),
        n=min(n, 2 * buffers.columns),
        k=min(k, _PARTS * buffers.depth),
    )
    return some, (m / some.m) * (n / some.n) * (k / some.k)
