"""The model's F beside all the others: what it costs not to have guessed the best one."""

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.common.busy_cores import take_cores
from benchmarks.common.operands import Operands
from benchmarks.host.rows import SweepRow
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.catalog import KernelSpec
from wavetrim.scheduler.execution.executor import Executor, Timings
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.plan import Plan, choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

POINTS: Final = 30
"""Between the wave boundaries, at equal distances."""

WAVES: Final = 24
"""Wave boundaries at most; of more, every second, third… is left out."""

REACH: Final = 2.5
LEAST_REACH_SECONDS: Final = 5e-3
"""The sweep goes as far as the model expects at most so many times the plan's time, or so little
time that it does not matter."""

LOOKS: Final = 512
"""F at which the model is asked how far that is."""

LEAST_POINTS: Final = 10
FINALISTS: Final = 4
"""The fastest ones of the sweep are measured again, with the model's F, each device alone, and the
plan whose boundary may move."""

FINAL_TURNS: Final = 5
MOST_FINAL_TURNS: Final = 25
FINAL_SECONDS: Final = 0.4
"""Where turns are short there are more of them: medians of few differ by chance."""

BUSY_SHARE: Final = 0.5
"""Of the cores, taken by others while a split and its F, pinned, are compared again."""

BUSY_TIME: Final = 0.2
"""Of a split's sweep, kept for that."""

LEAST_FINAL_TURNS: Final = 3
LEAST_RUNS: Final = 2 * LEAST_POINTS + LEAST_FINAL_TURNS * (FINALISTS + 4)
"""Fewer products than these are no sweep."""

USUAL_SECONDS: Final = 8.0
LONGEST_SECONDS: Final = 16.0
"""What a sweep may take: usually, and where even the least one takes longer."""


def estimate_sweep_seconds(total_seconds: float) -> float:
    """About what a sweep takes, 0 for none: the whole of it, or as much as is worth its time.

    Args:
        total_seconds: What the plan should take.
    """
    runs = 1.5 * (WAVES + POINTS) + FINAL_TURNS * (FINALISTS + 4)
    usual = max(total_seconds, LEAST_REACH_SECONDS / REACH)
    least_seconds = LEAST_RUNS * total_seconds
    if least_seconds > LONGEST_SECONDS:
        return 0.0
    return max(min(runs * usual, USUAL_SECONDS), least_seconds) + 0.1 + FINAL_SECONDS


def count_final_turns(total_seconds: float) -> int:
    """Turns of the best ones, if there is time.

    Args:
        total_seconds: What one product takes.
    """
    fitting = int(FINAL_SECONDS / (total_seconds * (FINALISTS + 4)))
    return max(FINAL_TURNS, min(fitting, MOST_FINAL_TURNS))


class Sweep:
    """One product, with F from the one end to the other.

    Args:
        executor: Runs the plans.
        profile: What they are chosen from.
        problem: The product.
        sms: Multiprocessors that the GPU is held to; None for all.

    Raises:
        PlanError: No kernel can be held to them.
    """

    def __init__(
        self, executor: Executor, profile: MachineProfile, problem: GemmProblem, sms: int | None
    ) -> None:
        self._executor = executor
        self._profile = profile
        self._problem = problem
        self._sms = sms
        self.plan = choose_plan(problem, profile, PlanOptions(sms=sms))
        alone = choose_plan(problem, profile, PlanOptions(f=0, sms=sms))
        assert alone.spec is not None, "a GPU computes rows with a kernel"
        self._spec: KernelSpec = self.plan.spec or alone.spec

    def measure(self, operands: Operands, seconds: float) -> SweepRow:
        """Measure some F once each, and the best of them several times.

        Args:
            operands: The product.
            seconds: What it may take.
        """
        deadline = time.perf_counter() + seconds
        m, chosen = self._problem.m, self.plan.f
        self._run(chosen, operands)
        total_seconds = self._run(chosen, operands).total_seconds
        runs = int(seconds / total_seconds)
        points = list_points(self.plan, most=max(LEAST_POINTS, runs // 3))
        curve = {f: self._run(f, operands).total_seconds for f in points}
        finalists = sorted(curve, key=curve.__getitem__)[:FINALISTS]
        alone = [0] + [m] * self._is_cpu_worthwhile()
        again: list[int | None] = [None, *dict.fromkeys([chosen, *alone, *finalists])]
        reserved_seconds = BUSY_TIME * seconds if 0 < chosen < m else 0.0
        turns = count_final_turns(total_seconds)
        timings = self._repeat(again, turns, operands, deadline - reserved_seconds)
        busy = self._repeat_while_busy(total_seconds, operands, deadline)
        medians = {f: find_median(of) for f, of in timings.items() if f is not None}
        best = min(medians, key=lambda f: medians[f]["total"])
        predicted = self.plan.predicted
        return SweepRow(
            *(m, self._problem.n, self._problem.k, self._problem.dtype, operands.memory),
            sms=self._sms or self._count_sms(),
            f=chosen,
            best_f=best,
            regret=medians[chosen]["total"] / medians[best]["total"],
            predicted_seconds={
                "gpu": predicted.gpu_seconds,
                "cpu": predicted.cpu_seconds,
                "total": predicted.total_seconds,
            },
            measured_seconds=medians[chosen],
            kernel=f"{self._spec.name} {self._spec.tile}",
            gpu_alone_seconds=medians[0]["total"],
            cpu_alone_seconds=medians[m]["total"] if m in medians else None,
            moving_seconds=find_median(timings[None])["total"],
            turns=min(map(len, timings.values())),
            busy_moving_seconds=find_median(busy[None])["total"] if busy else None,
            busy_pinned_seconds=find_median(busy[chosen])["total"] if busy else None,
            curve=[(f, curve[f], self.plan.predict(f).total_seconds) for f in sorted(curve)],
        )

    def _repeat_while_busy(
        self, total_seconds: float, operands: Operands, deadline: float
    ) -> dict[int | None, list[Timings]]:
        """A split as it is, None, and with its F pinned, while others take half of the cores."""
        chosen = self.plan.f
        if not 0 < chosen < self._problem.m:
            return {}
        with take_cores(round(BUSY_SHARE * usable_cores())):
            for f in (None, chosen):
                self._run(f, operands)
            return self._repeat(
                [None, chosen], count_final_turns(total_seconds), operands, deadline
            )

    def _repeat(
        self, rows: Sequence[int | None], turns: int, operands: Operands, deadline: float
    ) -> dict[int | None, list[Timings]]:
        """Some F in turns, in another order each time."""
        timings: dict[int | None, list[Timings]] = {f: [] for f in rows}
        order = list(rows)
        for turn in range(turns):
            if turn >= LEAST_FINAL_TURNS and time.perf_counter() > deadline:
                break
            random.Random(turn).shuffle(order)
            for f in order:
                timings[f].append(self._run(f, operands))
        return timings

    def _run(self, f: int | None, operands: Operands) -> Timings:
        """One product with a given F, which pins the boundary; None for the plan as it is."""
        plan = self.plan
        if f is not None:
            options = PlanOptions(self._spec.name, str(self._spec.tile), f, sms=self._sms)
            plan = choose_plan(self._problem, self._profile, options)
        return self._executor.run(plan, operands.a, operands.b, operands.c)

    def _is_cpu_worthwhile(self) -> bool:
        return self.plan.cpu_only_seconds <= REACH * self.plan.predicted.total_seconds

    def _count_sms(self) -> int:
        assert self._profile.gpu is not None, "a sweep needs a GPU"
        return self._profile.gpu.sm_count


@dataclass(frozen=True, slots=True)
class _Reach:
    """The first and the last F of a sweep."""

    first: int
    last: int


def list_points(plan: Plan, most: int) -> list[int]:
    """The F of a sweep: wave boundaries, points between them, both ends and the model's own.

    Args:
        plan: Tells waves and predictions.
        most: How many there may be, roughly: both kinds are thinned alike.
    """
    reach = _find_reach(plan)
    waves = [f for f in list_boundaries(plan) if reach.first <= f <= reach.last]
    share = min(1.0, most / (min(len(waves), WAVES) + POINTS))
    boundaries = thin(waves, max(2, round(WAVES * share)))
    count = max(2, round(POINTS * share))
    width = reach.last - reach.first
    between = [reach.first + width * place // (count - 1) for place in range(count)]
    return sorted({*boundaries, *between, plan.f})


def list_boundaries(plan: Plan) -> list[int]:
    """Every F at which the GPU's rows fill whole waves, or rows of tiles where a wave is less."""
    if plan.gpu_curve is None:
        return []
    m, grid = plan.problem.m, plan.gpu_curve.grid
    rows = {min(m, grid.rows_in_waves(wave)) for wave in range(grid.count_waves(m) + 1)}
    return sorted(m - gpu_rows for gpu_rows in rows)


def thin(values: Sequence[int], most: int) -> list[int]:
    """At most `most` of them, at equal distances, both ends among them."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[last * place // (most - 1)] for place in range(most)]


def find_median(timings: Sequence[Timings]) -> dict[str, float]:
    """Medians of the parts, each by itself."""
    parts = ("gpu", "cpu", "total")
    return {
        part: statistics.median(getattr(one, f"{part}_seconds") for one in timings)
        for part in parts
    }


def _find_reach(plan: Plan) -> _Reach:
    """The first and the last F for which the model does not expect too long a time."""
    limit = max(REACH * plan.predicted.total_seconds, LEAST_REACH_SECONDS)
    m = plan.problem.m
    looked_at = {*range(0, m, max(1, m // LOOKS)), m, plan.f}
    within = [f for f in looked_at if plan.predict(f).total_seconds <= limit]
    return _Reach(min(within), max(within))
