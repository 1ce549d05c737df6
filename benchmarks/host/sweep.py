"""Sweeps of F at many products, on one calibrated machine.

They show how much slower the model's F is than the best one.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.operands import Operands, draw_operands, pin_operands
from benchmarks.common.results import Record
from benchmarks.common.shapes import DTYPES, Product, Shape
from benchmarks.common.turns import Step, take_steps, take_turns
from benchmarks.host.conditions import Condition
from benchmarks.host.products import (
    RANDOM_SHARED,
    RANDOM_SWEEPS,
    SHORT_PRODUCTS,
    SWEPT_SHAPES,
    Swept,
    draw_products,
    draw_timely,
    list_pinned_sweeps,
    list_sweeps,
)
from benchmarks.host.results import SweepRow
from benchmarks.host.rounds import BEFORE_SIDE, PAUSE_SECONDS
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.calibration.calibrate import calibrate_gpus
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.drawing import list_edges
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import dump_profile

POINTS: Final = 30
WAVES: Final = 24
"""Values of F at equal distances, and most wave boundaries, in a sweep; chosen."""

REACH: Final = 2.5
LEAST_REACH_SECONDS: Final = 5e-3
"""Longest predicted time of an F in a sweep: this multiple of the plan's, or these seconds."""

LOOKS: Final = 64
"""Values of F whose predictions are compared with REACH, to find both ends of the sweep."""

FINALISTS: Final = 4
"""The fastest F of the sweep, measured again with the model's F and each device alone."""

LEAST_TURNS: Final = 3
MOST_TURNS: Final = 25
"""Turns of the finalists, as time allows."""

LEAST_RUNS: Final = 40
USUAL_RUNS: Final = 120
FIXED_SECONDS: Final = 0.5
USUAL_SECONDS: Final = 8.0
LONGEST_SECONDS: Final = 16.0
"""Products of a sweep, and its time: USUAL_RUNS within USUAL_SECONDS, or at least LEAST_RUNS within
LONGEST_SECONDS; chosen."""


def run_sweeps(arguments: argparse.Namespace, memory: Memory) -> None:
    """Calibrate, sweep products in one kind of memory, and write the results."""
    until = time.perf_counter() + arguments.seconds
    devices = list_devices()[: arguments.gpus]
    if not devices:
        raise OSError("there is no GPU, so there is no F to sweep")
    environment = describe_environment()
    several = f"x{len(devices)}" if len(devices) > 1 else ""
    kind = "pinned-sweeps" if memory == "pinned" else "sweeps"
    out: Path = arguments.out / f"host-{name_host(environment)}{several}-{kind}.json"
    with (
        TemporaryDirectory(prefix="wavetrim-") as folder,
        Executor(cache_dir=Path(folder), devices=devices) as executor,
    ):
        profile = calibrate_gpus(
            lambda some: Executor(cache_dir=Path(folder), devices=some),
            devices,
            cache_dir=Path(folder),
        )
        document = {"gpus": len(devices), "seed": arguments.seed, "profile": dump_profile(profile)}
        record = Record(out, environment | document)
        measure_sweeps(executor, profile, _list_swept(arguments, memory), record, until)
        record.write()
    print(f"written to {out}", flush=True)


def _list_swept(arguments: argparse.Namespace, memory: Memory) -> list[Swept]:
    shapes: Sequence[Shape] | None = arguments.shapes
    if memory == "pageable":
        drawn = [] if shapes else draw_products(arguments.seed, RANDOM_SWEEPS)
        return list_sweeps(shapes or SWEPT_SHAPES, drawn)
    if shapes:
        return list_pinned_sweeps([Product(*shape, dtype) for shape in shapes for dtype in DTYPES])
    drawn = draw_timely(arguments.seed, RANDOM_SHARED, cores=usable_cores(), has_gpu=True)
    return list_pinned_sweeps([*SHORT_PRODUCTS, *drawn])


def measure_sweeps(
    executor: Executor,
    profile: MachineProfile,
    products: Sequence[Swept],
    record: Record,
    until: float,
) -> None:
    """Sweep F at products, into a record."""
    side = np.ones((BEFORE_SIDE, BEFORE_SIDE), np.float32)
    regret: list[SweepRow] = record.document.setdefault("regret", [])

    def sweep(one: Swept, seconds: float) -> None:
        operands = draw_operands(one.product.shape, one.product.dtype)
        if one.memory == "pinned":
            operands = pin_operands(operands)
        before = partial(np.matmul, side, side) if one.condition == "after-numpy" else None
        sweep = Sweep(executor, profile, operands.problem, sms=one.sms, before=before)
        time.sleep(PAUSE_SECONDS)
        row = sweep.measure(operands, one.condition, seconds)
        regret.append(row)
        print(describe_sweep(row), flush=True)

    steps: list[Step] = []
    for one in products:
        problem = GemmProblem(*one.product.shape, one.product.dtype, one.memory)
        plan = choose_plan(problem, profile, PlanOptions(sms=one.sms))
        seconds = estimate_sweep_seconds(plan.predicted.total_seconds)
        if seconds == 0:
            record.leave_out(str(one), "too long to sweep")
        else:
            seconds += one.product.size_bytes / 2e9  # to draw the operands
            steps.append(Step(str(one), seconds, partial(sweep, one)))
    take_steps(steps, until, record)


def describe_sweep(row: SweepRow) -> str:
    """A line about a sweep."""
    predicted, measured = row.predicted_seconds["total"], row.measured_seconds["total"]
    return (
        f"F at {row.name} {row.sms} {row.condition}: {row.f}, "
        f"best {row.best_f}, regret {row.regret:.3f}; predicted {predicted * 1e3:.3f} ms, "
        f"measured {measured * 1e3:.3f} ms, {len(row.curve)} points"
    )


def estimate_sweep_seconds(total_seconds: float) -> float:
    """About the time of a sweep whose plan takes `total_seconds`; 0 if it would be too long."""
    least_seconds = LEAST_RUNS * total_seconds
    if least_seconds > LONGEST_SECONDS:
        return 0.0
    return FIXED_SECONDS + max(min(USUAL_RUNS * total_seconds, USUAL_SECONDS), least_seconds)


class Sweep:
    """A sweep of F at one product.

    Args:
        executor: Runs plans.
        profile: The machine.
        problem: The product.
        sms: Limit of the GPU's multiprocessors; None for all.
        before: Called before each product, to make the machine's condition.
    """

    def __init__(
        self,
        executor: Executor,
        profile: MachineProfile,
        problem: GemmProblem,
        *,
        sms: int | None = None,
        before: Callable[[], object] | None = None,
    ) -> None:
        self._before = before
        self._executor = executor
        self._profile = profile
        self._problem = problem
        self._sms = sms
        self.plan = choose_plan(problem, profile, PlanOptions(sms=sms))
        alone = choose_plan(problem, profile, PlanOptions(f=0, sms=sms))
        assert alone.spec is not None, "a GPU computes rows with a kernel"
        self._spec: KernelSpec = self.plan.spec or alone.spec

    def measure(self, operands: Operands, condition: Condition, seconds: float) -> SweepRow:
        """Measure some F once each, and the best of them several times."""
        deadline = time.perf_counter() + seconds
        m, chosen = self._problem.m, self.plan.f
        self._run(chosen, operands)
        total_seconds = self._run(chosen, operands).total_seconds
        points = list_points(self.plan, most=max(LEAST_RUNS // 4, int(seconds / total_seconds / 3)))
        curve = {f: self._run(f, operands).total_seconds for f in points}
        finalists = sorted(curve, key=curve.__getitem__)[:FINALISTS]
        reached = self.plan.cpu_only_seconds <= REACH * self.plan.predicted.total_seconds
        alone = [0, m] if reached else [0]
        again = list(dict.fromkeys([chosen, *alone, *finalists]))
        timings: dict[int, list[Timings]] = {f: [] for f in again}
        for _, f in take_turns(again, MOST_TURNS, least=LEAST_TURNS, until=deadline):
            timings[f].append(self._run(f, operands))
        return self._make_row(operands, condition, curve, timings)

    def _make_row(
        self,
        operands: Operands,
        condition: Condition,
        curve: Mapping[int, float],
        timings: Mapping[int, Sequence[Timings]],
    ) -> SweepRow:
        assert self._profile.gpu is not None, "a sweep needs a GPU"
        chosen, predicted = self.plan.f, self.plan.predicted
        medians = {f: find_median(of) for f, of in timings.items()}
        best = min(medians, key=lambda f: medians[f]["total"])
        return SweepRow(
            *(*operands.shape, operands.dtype, operands.memory),
            condition=condition,
            sms=self._sms or self._profile.gpu.sm_count,
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
            turns=min(map(len, timings.values())),
            curve=[(f, curve[f], self.plan.predict(f).total_seconds) for f in sorted(curve)],
        )

    def _run(self, f: int, operands: Operands) -> Timings:
        """One product with a given F, by the plan's kernel."""
        options = PlanOptions(self._spec.name, str(self._spec.tile), f, sms=self._sms)
        plan = choose_plan(self._problem, self._profile, options)
        if self._before is not None:
            self._before()
        return self._executor.run(plan, operands.a, operands.b, operands.c)


def list_points(plan: Plan, most: int) -> list[int]:
    """About `most` F: wave boundaries, points at equal distances, and the model's F."""
    first, last = _find_reach(plan)
    waves = list_edges(plan, first, last, most=WAVES)
    between = [first + (last - first) * index // (POINTS - 1) for index in range(POINTS)]
    return sorted({*thin(sorted({*waves, *between}), most), plan.f})


def thin(values: Sequence[int], most: int) -> list[int]:
    """At most `most` of the values, at equal distances, with both ends."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[last * index // (most - 1)] for index in range(most)]


def find_median(timings: Sequence[Timings]) -> dict[str, float]:
    """Medians of the parts, each by itself."""
    parts = ("gpu", "cpu", "total")
    return {
        part: statistics.median(getattr(one, f"{part}_seconds") for one in timings)
        for part in parts
    }


def _find_reach(plan: Plan) -> tuple[int, int]:
    """The first and the last F whose predicted time is not too long."""
    limit = max(REACH * plan.predicted.total_seconds, LEAST_REACH_SECONDS)
    m = plan.problem.m
    looked_at = {*range(0, m, max(1, m // LOOKS)), m, plan.f}
    within = [f for f in looked_at if plan.predict(f).total_seconds <= limit]
    return min(within), max(within)
