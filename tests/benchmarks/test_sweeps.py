"""Sweeps of F: which F are measured, for how long, and what is written."""

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common.operands import Matrix, draw_operands
from benchmarks.common.results import Record
from benchmarks.common.shapes import Shape
from benchmarks.host.products import (
    HELD_SMS,
    SHORT_PRODUCTS,
    SWEPT_SHAPES,
    Product,
    Swept,
    draw_products,
    list_pinned_sweeps,
)
from benchmarks.host.results import read_host_file
from benchmarks.host.sweep import (
    FIXED_SECONDS,
    LEAST_REACH_SECONDS,
    POINTS,
    REACH,
    USUAL_SECONDS,
    WAVES,
    Sweep,
    estimate_sweep_seconds,
    list_boundaries,
    list_points,
    thin,
)
from benchmarks.host.sweeps import measure_sweeps
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile, find_profile

H200 = build_preset_profile(PRESETS[0], "data sheet", 16)
HEAD: dict[str, Any] = {
    "hardware": {"gpu": "NVIDIA Abacus", "driver": "1.2", "cpu": "Beads", "cores": 16},
    "versions": {"numpy": "5.6"},
    "commit": "abc",
}


def plan_for(shape: Shape, dtype: str = "float32", **options):
    return choose_plan(GemmProblem(*shape, dtype), H200, PlanOptions(**options))


@pytest.mark.parametrize("sms", [None, *HELD_SMS])
@pytest.mark.parametrize("shape", SWEPT_SHAPES)
def test_sweeps_hold_the_models_choice_and_stay_within_reach(shape: Shape, sms: int | None) -> None:
    plan = plan_for(shape, sms=sms)
    points = list_points(plan, most=1000)
    assert points == sorted(set(points))
    assert plan.f in points
    assert 0 <= points[0] <= points[-1] <= shape[0]
    assert len(points) <= WAVES + POINTS + 1
    for end in (points[0], points[-1]):
        predicted = plan.predict(end).total_seconds
        reach = max(REACH * plan.predicted.total_seconds, LEAST_REACH_SECONDS)
        assert predicted <= 1.0001 * reach
    assert len(list_points(plan, most=10)) <= 11


def test_every_boundary_is_a_number_of_whole_waves() -> None:
    plan = plan_for((4096, 4096, 4096), f=0)
    assert plan.gpu_curve is not None
    boundaries = list_boundaries(plan)
    assert boundaries[0] == 0
    assert boundaries[-1] == 4096
    grid = plan.gpu_curve.grid
    for f in boundaries[1:]:
        rows = 4096 - f
        assert grid.count_waves(rows) < grid.count_waves(rows + 1)


@given(st.lists(st.integers(), max_size=60, unique=True).map(sorted), st.integers(2, 30))
def test_thinned_lists_keep_both_ends(values: list[int], most: int) -> None:
    kept = thin(values, most)
    assert len(kept) == min(most, len(values))
    assert kept == sorted(set(kept))
    assert set(kept) <= set(values)
    if values:
        assert (kept[0], kept[-1]) == (values[0], values[-1])


class Simulated:
    """An executor whose parts take what the model expects, half as long as that in its splits."""

    devices = ()

    def run(self, plan: Plan, *_: Matrix) -> Timings:
        expected = plan.predict(plan.f)
        shorter = 2 if 0 < plan.f < plan.problem.m else 1
        parts = (expected.gpu_seconds, expected.cpu_seconds, expected.total_seconds)
        return Timings(0.0, 0.0, *(seconds / shorter for seconds in parts), plan.f)


def test_sweeps_write_regret_and_the_time_of_each_device_alone(tmp_path: Path) -> None:
    record = Record(tmp_path / "host-here-sweeps.json", HEAD)
    small, large = (Product((size, size, size), "float32") for size in (64, 2048))
    swept = [Swept(small), Swept(large), Swept(large, sms=2)]
    measure_sweeps(Simulated(), H200, swept, record, time.perf_counter() + 60)  # type: ignore[arg-type]
    alone, whole, split = read_host_file(tmp_path / "host-here-sweeps.json").regret
    assert (alone.shape, alone.sms, alone.is_split) == ((64, 64, 64), 132, False)
    assert (whole.sms, split.sms) == (132, 2)
    assert split.is_split
    for row in (alone, whole, split):
        assert row.regret >= 1
        assert row.f in [point[0] for point in row.curve]
    assert split.cpu_alone_seconds is not None
    better_seconds = min(split.gpu_alone_seconds, split.cpu_alone_seconds)
    assert split.measured_seconds["total"] < better_seconds


def test_products_that_take_too_long_are_not_swept() -> None:
    assert FIXED_SECONDS < estimate_sweep_seconds(1e-4) < estimate_sweep_seconds(1e-3) < 0.9
    assert estimate_sweep_seconds(0.1) == USUAL_SECONDS + FIXED_SECONDS
    assert estimate_sweep_seconds(1.0) == 0.0


def test_products_that_both_devices_share_are_swept_after_numpy_too() -> None:
    swept = list_pinned_sweeps(draw_products("1", 2))
    assert {one.condition for one in swept} == {"quiet", "after-numpy"}
    assert {one.memory for one in swept} == {"pinned"}
    problems = [GemmProblem(*shape, dtype, "pinned") for shape, dtype in SHORT_PRODUCTS]
    plans = [choose_plan(problem, H200) for problem in problems]
    assert sum(0 < plan.f < plan.problem.m for plan in plans) > len(plans) / 2


@pytest.mark.gpu
def test_a_sweep_finds_the_time_of_every_f(tmp_path: Path) -> None:
    operands = draw_operands((1500, 1024, 1024), "float32")
    devices = list_devices()[:1]
    profile = find_profile(None, devices=devices, directory=None, cpu_threads=2)
    with Executor(cache_dir=tmp_path, devices=devices, cpu_threads=2) as executor:
        row = Sweep(executor, profile, operands.problem).measure(operands, "quiet", 1.0)
    assert row.regret >= 1.0
    assert row.f in {point[0] for point in row.curve}
    assert all(point[1] > 0 and point[2] > 0 for point in row.curve)
    assert min(row.gpu_alone_seconds, *row.measured_seconds.values()) >= 0
