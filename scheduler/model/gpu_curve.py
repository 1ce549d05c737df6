"""The GPU's cost curve: the fastest schedule of a product, and of fewer of its rows.

For all rows the fastest schedule is searched (`kernels/schedule/cuts.py`). For a few smaller
numbers of rows, the knots, the same cut is timed. Between knots the curve rises with the kernel's
waves.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from wavetrim.kernels.schedule.buffers import fit_buffers
from wavetrim.kernels.schedule.cuts import plan_steps, take_whole
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.schedule import Rates, Timeline, time_schedule
from wavetrim.kernels.schedule.steps import Cut, Step, StepPlan, cut_steps
from wavetrim.scheduler.model.corrections import UNCORRECTED, Correction
from wavetrim.scheduler.model.waves import WaveGrid, divide_up

_KNOTS: Final = 8
"""Numbers of rows for which a schedule is timed, including all rows; chosen."""

_PARTS: Final = 32
"""Most panels, and most parts of K, of a schedule that is timed; chosen. Longer ones repeat."""


@dataclass(frozen=True, slots=True)
class GpuCurve:
    """Rows of C → seconds on the GPU, copies from and to the caller's memory included.

    Attributes:
        problem: The product, for the pipeline.
        rates: Rates of link and kernel.
        memory_bytes: Device memory for buffers.
        alone_rates: Rates without a CPU part. Times are those of the cut that is fastest at these,
            so that one search serves all ways to share the CPU. None if these are `rates`.
        start_seconds: Seconds lost while the CPU part starts.
        correction: Factor from earlier runs of its class.
    """

    problem: PanelProblem
    rates: Rates
    memory_bytes: int
    alone_rates: Rates | None = None
    start_seconds: float = 0.0
    correction: Correction = UNCORRECTED
    # Searches ask for the same rows again and again.
    _known: dict[int, float] = field(default_factory=dict, init=False, compare=False, repr=False)
    # Seconds of the knots that were asked for, by their places.
    _knots: dict[int, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def m(self) -> int:
        """Rows of C."""
        return self.problem.m

    @property
    def grid(self) -> WaveGrid:
        """Tiles and slots of the kernel on this GPU."""
        problem = self.problem
        return WaveGrid(problem.n, problem.tile_m, problem.tile_n, problem.slots)

    @property
    def split_steps(self) -> int | None:
        """Steps along K of a tile, if the kernel splits the last wave along K; else None."""
        problem = self.problem
        return divide_up(problem.k, problem.tile_k) if problem.splits_tail else None

    @property
    def wave_seconds(self) -> float:
        """Seconds of one wave at this K."""
        return self.rates.wave_seconds + self.problem.k * self.rates.depth_seconds

    @property
    def copying_share(self) -> float:
        """Share of the time of all rows in which copies are under way, 0…1."""
        _, timeline = self.find_timeline(self.problem.m)
        return min(1.0, timeline.copying_seconds / timeline.seconds)

    def slow_by_cpu_part(
        self, copy_stretch: float, start_seconds: float, correction: Correction = UNCORRECTED
    ) -> "GpuCurve":
        """The curve while the CPU part computes other rows.

        Args:
            copy_stretch: Factor on the time of copies.
            start_seconds: Seconds lost while the CPU part starts.
            correction: Factor from earlier runs with a CPU part.
        """
        return replace(
            self,
            rates=self.rates.slow_copies(copy_stretch),
            alone_rates=self._cut_rates,
            start_seconds=self.start_seconds + start_seconds,
            correction=correction,
        )

    def divide(self, rows: int) -> tuple[int, ...]:
        """Rows of each GPU: all of them."""
        return (rows,)

    def find_cut(self, rows: int) -> Cut:
        """The cut of the fastest schedule for `rows` rows, searched for them: the one that runs."""
        _, plan = self._plan_steps(rows)
        return plan.cut

    def find_timeline(self, rows: int) -> tuple[tuple[Step, ...], Timeline]:
        """The steps of that schedule, and begin and end of each, uncorrected."""
        outline, plan = self._plan_steps(rows)
        return plan.steps, time_schedule(outline, plan.steps, self.rates)

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

    def find_least_kernel_seconds(self, rows: int) -> float:
        """Lower bound of the kernel's seconds in all schedules, of one launch or of several."""
        problem, rates = self.problem, self.rates
        if rows == 0 or not problem.splits_short:
            return self.kernel_seconds(rows)
        # Of several launches, each of less than one wave, all may fill the GPU.
        waves = self.grid.count_tiles(rows) / problem.slots
        return rates.launch_seconds + waves * self.wave_seconds

    def find_least_seconds(self, rows: int) -> float:
        """Lower bound for all schedules: the longest of kernel, copies in and copies out."""
        return self.correction.factor * self._find_bound(rows)

    def _find_bound(self, rows: int) -> float:
        problem, rates = self.problem, self.rates
        b_columns = 0.0 if problem.b_resident else problem.n * rates.b_share
        in_bytes = (rows + b_columns) * problem.k * problem.item_bytes
        out_bytes = rows * problem.n * problem.item_bytes
        return rates.call_seconds + max(
            self.find_least_kernel_seconds(rows),
            in_bytes / rates.in_bytes_per_second,
            out_bytes / rates.out_bytes_per_second,
        )

    def seconds(self, rows: int) -> float:
        """Seconds for `rows` rows: 0 without rows, and never less for more rows."""
        if rows == 0:
            return 0.0
        seconds = self._known.get(rows)
        if seconds is None:
            # Between knots, copies may rise by more than the waves do. In a longer part, steps
            # enqueued earlier keep the GPU busy while the CPU part starts.
            least_seconds = max(self._find_bound(rows), self.start_seconds)
            seconds = max(self._find_schedule_seconds(rows), least_seconds)
            self._known[rows] = seconds = self.correction.factor * seconds
        return seconds

    def estimate_rows(self, seconds: float) -> float:
        """Rough number of rows that take `seconds`."""
        seconds /= self.correction.factor
        before = rows = knot_seconds = 0.0
        for at, rows in enumerate(self._knot_rows):
            knot_seconds = self._time_knot(at)
            if knot_seconds > seconds:
                break
            before = rows
        return before + (rows - before) * min(1.0, seconds / knot_seconds)

    def _find_schedule_seconds(self, rows: int) -> float:
        knot_rows = self._knot_rows
        at = bisect_left(knot_rows, rows)
        until_seconds = self._time_knot(at)
        if rows == knot_rows[at] or at == 0:
            return until_seconds
        waves, from_waves, until_waves = map(self._count_waves, (rows, *knot_rows[at - 1 : at + 1]))
        if until_waves == from_waves:
            return until_seconds
        from_seconds = self._time_knot(at - 1)
        share = (waves - from_waves) / (until_waves - from_waves)
        return from_seconds + share * (until_seconds - from_seconds)

    @property
    def _knot_rows(self) -> tuple[int, ...]:
        return _list_knot_rows(self.problem.m)

    def _time_knot(self, at: int) -> float:
        """Seconds of a knot: at most those of the next one, so that times rise.

        Most questions are about nearly all rows, so a knot is timed when it is asked for.
        """
        seconds = self._knots.get(at)
        if seconds is None:
            knot_rows = self._knot_rows
            known = self.problem, self.rates, self._cut_rates, self.memory_bytes
            if at == len(knot_rows) - 1:
                seconds = _time_all_rows(*known)
            else:
                seconds = min(self._time_knot(at + 1), _time_rows(*known, knot_rows[at]))
            self._knots[at] = seconds
        return seconds

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
def _list_knot_rows(m: int) -> tuple[int, ...]:
    """The knots' numbers of rows, rising; the last is all rows."""
    return tuple(sorted({divide_up(m * part, _KNOTS) for part in range(1, _KNOTS + 1)}))


@lru_cache(maxsize=1024)
def _time_rows(
    problem: PanelProblem, rates: Rates, cut_rates: Rates, memory_bytes: int, rows: int
) -> float:
    """Seconds of some rows by the cut of all rows, or in a single step if that is faster."""
    outline, times = _outline(problem, memory_bytes)
    cut = plan_steps(outline, cut_rates, memory_bytes).cut
    some = replace(outline, m=divide_up(outline.m * rows, problem.m))
    first_rows, panel_rows = min(some.m, cut.first_rows), min(some.m, cut.panel_rows)
    cuts = cut._replace(first_rows=first_rows, panel_rows=panel_rows), take_whole(some)
    plans = (cut_steps(some, one, memory_bytes) for one in cuts)
    return times * min(time_schedule(some, plan.steps, rates).seconds for plan in plans)


@lru_cache(maxsize=256)
def _outline(problem: PanelProblem, memory_bytes: int) -> tuple[PanelProblem, float]:
    """A part of the product with fewer steps, and the whole product's time as a multiple of it.

    With little memory a product has very many steps, which repeat. So some of the rows, of the
    groups of columns and of K stand for all.
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
