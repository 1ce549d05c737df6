"""The host benchmark's decisions, its baselines that need no GPU, and one small run of it."""

import ctypes
import importlib.util
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Matrix, Operands, cut_rows, draw_operands, pin_operands
from benchmarks.common.results import Record
from benchmarks.common.shapes import DTYPES, Shape
from benchmarks.common.steps import LEAST_SHARE
from benchmarks.host import throughput
from benchmarks.host.__main__ import FILES, SECONDS
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.baselines.cublas_xt import BLOCKS, CublasXt, list_settings
from benchmarks.host.baselines.executor import Learner
from benchmarks.host.baselines.libraries import PlainNumpy
from benchmarks.host.baselines.lineup import (
    NAMES,
    find_preset_profile,
    list_names,
    make_baselines,
)
from benchmarks.host.baselines.streamed_cupy import choose_panel_rows, cut_panels
from benchmarks.host.baselines.xt_library import XtError, XtHandle, declare_functions
from benchmarks.host.bench import HostBench
from benchmarks.host.contest import (
    FAR_RATIO,
    LEAST_TURNS,
    REPEATED_SECONDS,
    SHORT_SECONDS,
    SHORT_TURNS,
    SLOW_SECONDS,
    USUAL_TURNS,
    HostContest,
    HostScore,
    make_host_rows,
)
from benchmarks.host.limit import LinkRates, find_limit_seconds, measure_compute, measure_links
from benchmarks.host.machine import BlasThreads
from benchmarks.host.results import read_host_file
from benchmarks.host.suite import (
    ALL_SHAPES,
    HELD_SMS,
    NAMED,
    Product,
    draw_products,
    list_small,
    list_suite,
    list_sweeps,
)
from benchmarks.host.sweep import (
    FINAL_SECONDS,
    LEAST_REACH_SECONDS,
    LONGEST_SECONDS,
    POINTS,
    REACH,
    USUAL_SECONDS,
    WAVES,
    Sweep,
    count_final_turns,
    estimate_sweep_seconds,
    list_boundaries,
    list_points,
    thin,
)
from tests.benchmarks.host_figures import HEAD
from tests.environment import ROOT
from tests.native.c_library import build_library
from wavetrim.cpu.threads import limit_blas_threads, usable_cores
from wavetrim.kernels.device import list_devices, select_devices
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.lanes import Choice, Lane
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile, find_profile

H200 = build_preset_profile(PRESETS[0], "data sheet", 16)
LINK = LinkRates(in_gbytes_per_second=50.0, out_gbytes_per_second=25.0)


def plan_for(shape: Shape, dtype: str = "float32", **options):
    return choose_plan(GemmProblem(*shape, dtype), H200, PlanOptions(**options))


# --- products and time ---------------------------------------------------------------------------


def test_the_suite_is_the_promised_one_and_ten_more() -> None:
    assert len(NAMED) == 16
    assert len(ALL_SHAPES) == len(set(ALL_SHAPES)) == 26
    assert {(16384, 16384, 256), (1, 8192, 8192), (32768, 32768, 4096)} < set(NAMED)
    small = {product.shape for product in list_small()} | {(1024, 1024, 1024)}
    assert small == {(size, size, size) for size in (64, 128, 256, 512, 700, 1024)}


@given(st.dates().map(str))
@example("2026-11-23")
def test_a_date_draws_the_same_products_again(seed: str) -> None:
    products = draw_products(seed)
    assert products == draw_products(seed)
    assert len(products) == 40
    assert all(product.size_bytes <= 4 * 2**30 for product in products)
    sizes = [size for product in products for size in product.shape]
    assert 1 <= min(sizes) <= max(sizes) <= 40_000
    assert 10 < statistics.median(sizes) < 2000  # log-uniform: 200
    assert {product.dtype for product in products} == set(DTYPES)


def test_most_of_each_part_fits_into_its_time_on_an_h200() -> None:
    drawn = draw_products("2026-11-23")
    contests = [
        product.estimate_seconds(memory)
        for product in (*list_small(), *drawn, *list_suite())
        for memory in MEMORIES
    ]
    assert LEAST_SHARE * sum(contests) < SECONDS
    sweeps = [
        estimate_sweep_seconds(
            choose_plan(
                product.place_in("pageable"), H200, PlanOptions(sms=sms)
            ).predicted.total_seconds
        )
        for product, sms in list_sweeps(list_suite(), drawn)
    ]
    assert LEAST_SHARE * sum(sweeps) < 1.2 * SECONDS
    assert max(sweeps) <= LONGEST_SECONDS + 0.1 + FINAL_SECONDS
    assert sum(seconds > 0 for seconds in sweeps) > 0.8 * len(sweeps)


def test_bytes_are_those_of_all_three_matrices() -> None:
    assert Product((2, 3, 5), "float64").size_bytes == 8 * (10 + 15 + 6)


def test_the_limit_is_the_slowest_of_computing_and_both_ways() -> None:
    def limit(compute_seconds: float, shape: Shape) -> float:
        return find_limit_seconds(shape, "float32", compute_seconds=compute_seconds, link=LINK)

    assert limit(1.0, (10, 10, 10)) == 1.0
    assert limit(0.0, (1000, 1000, 2000)) == pytest.approx(4 * 4_000_000 / 50e9)
    assert limit(0.0, (1000, 1000, 10)) == pytest.approx(4 * 1_000_000 / 25e9)


# --- operands and checks -------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.integers(0, 2**34), st.integers(1, 64))
def test_ranges_cover_all_rows_once(rows: int, size_bytes: int, threads: int) -> None:
    ranges = cut_rows(rows, size_bytes, threads)
    assert len(ranges) <= threads
    assert [edge.start for edge in ranges] == [0, *(edge.stop for edge in ranges[:-1])]
    assert ranges[-1].stop == rows
    assert all(edge.start < edge.stop for edge in ranges)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1500, 700, 900), (1, 3000, 3000), (3000, 3000, 1)])
def test_right_products_pass_and_others_do_not(shape: Shape, dtype: str) -> None:
    operands = draw_operands(shape, dtype)
    assert operands.shape == shape
    assert operands.dtype == dtype
    assert np.isnan(operands.c).all()
    assert -1 <= operands.a.min() <= operands.a.max() <= 1
    check = FreivaldsCheck(operands)
    assert not check.find_error(operands.c) <= 1.0
    product = operands.a @ operands.b
    assert check.find_error(product) <= 0.5
    assert check.find_error(product[:, :-1]) == math.inf
    product[-1, -1] += 1.0
    assert check.find_error(product) > 1.0


def test_products_in_tf32_do_not_pass() -> None:
    operands = draw_operands((512, 2048, 2048), "float32")

    def cut(matrix: Matrix) -> Matrix:
        return (matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    assert FreivaldsCheck(operands).find_error(cut(operands.a) @ cut(operands.b)) > 1.0


# --- baselines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 255, 256, 333, 4096, 4097, 65536, 100_003])
def test_panels_are_whole_tiles_and_cover_all_rows(m: int) -> None:
    rows = choose_panel_rows(m)
    panels = list(cut_panels(m, rows))
    assert rows == m or rows % 256 == 0
    assert 1 <= len(panels) <= 16
    assert sum(panel.stop - panel.start for panel in panels) == m


def test_cublasxt_is_tried_with_all_blocks_that_differ() -> None:
    pageable = list_settings(16384, "pageable")
    assert {x.block for x in pageable} == set(BLOCKS)
    assert len(pageable) == 2 * len(BLOCKS)
    assert not any(x.pinning for x in list_settings(16384, "pinned"))
    assert {x.block for x in list_settings(2048, "pinned")} == {1024, 2048}
    assert {x.block for x in list_settings(1025, "pinned")} == {1024, 2048}
    assert {x.block for x in list_settings(64, "pinned")} == {1024}


@pytest.fixture(scope="module")
def xt_library(tmp_path_factory: pytest.TempPathFactory):
    """The functions of cublasXt that are called, by its prototypes."""
    source = shutil.copy(Path(__file__).with_name("xt_library.c"), tmp_path_factory.mktemp("xt"))
    library = build_library(Path(source))
    loaded = ctypes.CDLL(str(library))
    declare_functions(loaded)
    loaded.read_ratio.restype = ctypes.c_float
    return loaded


@pytest.mark.parametrize("memory", MEMORIES)
def test_cublasxt_is_tuned_among_what_it_does_not_refuse(
    xt_library, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    monkeypatch.setattr("benchmarks.host.baselines.xt_library.load_library", lambda: xt_library)
    operands = replace(draw_operands((90, 80, 70), "float32"), memory=memory)
    xt_library.refuse_pinning(1)
    baseline = CublasXt([0], shares_with_cpu=True)
    assert baseline.prepare(operands, time.perf_counter() + 20)
    xt_library.refuse_pinning(0)
    settings = baseline.settings
    assert (settings["block"], settings["pinning"]) == (1024, False)
    assert settings["tried"] >= (3 if memory == "pageable" else 2)
    assert baseline.wakes_blas == (settings["cpu_ratio"] > 0)
    assert FreivaldsCheck(operands).find_error(baseline.multiply(operands)) <= 1.0


@pytest.mark.parametrize("ratio", [0.0, 0.2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cublasxt_is_asked_for_the_row_major_product(xt_library, dtype: str, ratio: float) -> None:
    handle = XtHandle([3, 5], xt_library)
    assert [xt_library.read_device(place) for place in range(xt_library.read_count())] == [3, 5]
    handle.set_cpu_routine(dtype)
    handle.set_cpu_ratio(dtype, ratio)
    handle.set_block(2048)
    handle.set_pinning(True)
    operands = draw_operands((37, 23, 41), dtype)
    handle.multiply(operands)
    assert FreivaldsCheck(operands).find_error(operands.c) <= 1.0
    assert xt_library.read_ratio(DTYPES.index(dtype)) == pytest.approx(ratio)
    assert (xt_library.read_block(), xt_library.read_pinning()) == (2048, 1)
    handle.close()


def test_a_refusal_of_cublasxt_names_call_and_status(xt_library) -> None:
    with pytest.raises(XtError, match="cublasXtSetBlockDim: status 7"):
        XtHandle([0], xt_library).set_block(0)


def test_blas_threads_are_woken_for_a_while_only() -> None:
    limit_blas_threads()

    def count() -> set[int]:
        return {
            x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"
        }

    blas = BlasThreads()
    before = count()
    with blas.wake_all():
        assert max(count()) >= max(before)
    assert count() == before


# --- turns ---------------------------------------------------------------------------------------


class Wrong(Baseline):
    """Leaves C as it is."""

    name = "wrong"

    def multiply(self, operands: Operands) -> Matrix:
        return operands.c


class Late(PlainNumpy):
    """Fails at its third product."""

    name = "late"

    def __init__(self) -> None:
        self.products = 0

    def multiply(self, operands: Operands) -> Matrix:
        self.products += 1
        if self.products == 3:
            raise OSError("lost")
        return super().multiply(operands)


class Aside(PlainNumpy):
    """Does not take part."""

    name = "aside"

    def prepare(self, operands: Operands, until: float) -> bool:
        return False


def run_contest(*baselines: Baseline, seconds: float = 60.0):
    operands = draw_operands((60, 70, 80), "float64")
    refused: dict[str, str] = {}
    scores = HostContest(operands, FreivaldsCheck(operands), BlasThreads()).run(
        baselines, time.perf_counter() + seconds, lambda one, why: refused.update({one.name: why})
    )
    rows = make_host_rows(operands, scores, limit_seconds=1e-6)
    return {row.baseline: row for row in rows}, refused


def test_baselines_take_turns_and_wrong_ones_are_refused() -> None:
    rows, refused = run_contest(PlainNumpy(), Wrong(), Late(), Aside())
    assert set(rows) == {"numpy"}
    row = rows["numpy"]
    assert (row.turns, row.f, row.f_actual) == (PlainNumpy.turns, None, None)
    assert row.limit_share == pytest.approx(1e-6 / row.seconds)
    assert row.first_seconds is not None
    assert refused["wrong"].startswith("WrongProductError: the product is off by nan")
    assert refused["late"] == "OSError: lost"


class Counted(PlainNumpy):
    """Counts its calls, each of which takes some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.calls = 0
        self.call_seconds = seconds

    def multiply(self, operands: Operands) -> Matrix:
        self.calls += 1
        time.sleep(self.call_seconds)
        return super().multiply(operands)


@pytest.mark.parametrize(
    ("call_seconds", "calls"), [(0.0, 1 + 2 * LEAST_TURNS), (REPEATED_SECONDS, LEAST_TURNS)]
)
def test_a_turn_at_a_short_product_is_two_calls(call_seconds: float, calls: int) -> None:
    counted = Counted(call_seconds)
    rows, _ = run_contest(counted, seconds=0.0)
    row = rows["numpy"]
    assert counted.calls == calls
    assert (row.first_seconds == row.seconds) == (call_seconds > 0)


def test_without_time_each_still_has_the_least_turns() -> None:
    rows, _ = run_contest(PlainNumpy(), seconds=0.0)
    assert rows["numpy"].turns == LEAST_TURNS
    assert HostScore(SLOW_SECONDS * 1.01).count_least_turns(SLOW_SECONDS) == 1
    assert HostScore(1.0).count_least_turns(0.9 / FAR_RATIO) == 1
    assert HostScore(1.0).count_least_turns(1.1 / FAR_RATIO) == LEAST_TURNS
    short = HostScore(1.0, [SHORT_SECONDS / 2])
    assert short.most_turns == Baseline.turns > USUAL_TURNS
    assert short.count_least_turns(1.0) == SHORT_TURNS
    assert short.count_least_turns(1.0, rests=True) == LEAST_TURNS
    assert HostScore(1.0, [SHORT_SECONDS * 2]).most_turns == USUAL_TURNS


def test_this_products_executor_tells_its_rows(kernel_cache: Path) -> None:
    refused: dict[str, str] = {}
    with Executor(cache_dir=kernel_cache) as executor:
        profile = find_preset_profile(executor)
        baselines = make_baselines(executor, profile, NAMES, refused.__setitem__)
        assert [one.name for one in baselines] == ["wavetrim", "wavetrim-preset", "numpy"]
        assert set(refused) == set(NAMES) - {"wavetrim", "wavetrim-preset", "numpy"}
        rows, wrong = run_contest(*baselines)
    assert not wrong
    assert (rows["wavetrim"].f, rows["wavetrim"].f_actual) == (60, 60)
    assert rows["wavetrim"].settings is not None


def test_a_learner_counts_each_product_once_and_is_not_seen_by_plans() -> None:
    learner = Learner()
    plan = plan_for((700, 600, 500), f=700)
    (correction,) = plan.corrections
    for ratio in (1.9, 2.0, 30.0):
        learner.note(correction.run_class, 1.0, ratio)
    assert learner.correct(plan) == plan.predicted.total_seconds
    for _ in range(20):
        learner.note(correction.run_class, 1.0, 2.0)
        learner.learn()
    assert learner.products == 20
    assert learner.correct(plan) == pytest.approx(2 * plan.predicted.total_seconds, rel=0.02)
    assert learner.find(correction.run_class).factor == 1


@pytest.mark.gpu
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_baselines_compute_the_product(tmp_path: Path, dtype: str, memory: str) -> None:
    drawn = draw_operands((1531, 919, 1201), dtype)
    operands = pin_operands(drawn) if memory == "pinned" else drawn
    refused: dict[str, str] = {}
    with Executor(cache_dir=tmp_path, devices=list_devices()) as executor:
        profile = find_preset_profile(executor)
        baselines = make_baselines(executor, profile, NAMES, refused.__setitem__)
        scores = HostContest(operands, FreivaldsCheck(drawn), BlasThreads()).run(
            [one for one in baselines if memory in one.memories],
            time.perf_counter() + 20,
            lambda one, why: refused.update({one.name: why}),
        )
        for baseline in baselines:
            baseline.release()
    allowed = {"torch"} if importlib.util.find_spec("torch") is None else set()
    assert set(refused) <= allowed, refused
    assert {one.name for one in scores} >= {"wavetrim", "cupy", "cupy-streams", "cublasxt"}


@pytest.mark.gpu
def test_all_baselines_on_several_gpus_compute_the_product(tmp_path: Path) -> None:
    """On two GPUs, or on one used as two, which cublasXt refuses.

    Not with relays: a data sheet does not say how fast GPUs reach each other.
    """
    drawn = draw_operands((4096, 2048, 1024), "float32")
    operands = pin_operands(drawn)
    refused: dict[str, str] = {}
    alone = len(list_devices()) < 2
    refusing = ["wavetrim-relayed"] + ["cublasxt"] * alone
    names = [name for name in list_names(2) if name not in refusing]
    devices = select_devices("0,0" if alone else "0,1")
    with Executor(cache_dir=tmp_path, devices=devices) as executor:
        profile = find_preset_profile(executor)
        baselines = make_baselines(executor, profile, names, refused.__setitem__)
        scores = HostContest(operands, FreivaldsCheck(drawn), BlasThreads()).run(
            baselines, time.perf_counter() + 10, lambda one, why: refused.update({one.name: why})
        )
        for baseline in baselines:
            baseline.release()
    assert not refused
    assert {one.name for one in scores} == set(names)


def test_products_that_wait_are_divided_among_the_gpus() -> None:
    lanes = [frozenset({0}), frozenset({1}), frozenset({0, 1})]
    choices = [Choice(lane, 0.02 / len(lane)) for lane in lanes]
    computed: list[Lane] = []
    busy: set[int] = set()

    def compute(lane: Lane) -> None:
        assert busy.isdisjoint(lane)
        busy.update(lane)
        time.sleep(0.02 / len(lane))
        computed.append(lane)
        busy.difference_update(lane)

    throughput.compute_waiting(7, choices, 2, compute)
    assert len(computed) == 7
    assert sum(len(lane) == 1 for lane in computed) >= 6
    assert set(lanes[:2]) <= set(computed)


@pytest.mark.gpu
def test_products_that_wait_together_are_computed_on_every_number_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput, "SHAPE", (1024, 1024, 1024))
    with Executor(cache_dir=tmp_path, devices=select_devices("0,0")) as executor:
        profile = find_preset_profile(executor)
        rows = throughput.measure_throughput(executor, profile, until=time.perf_counter() + 2)
    assert {(row.baseline, row.gpus) for row in rows} == {
        (name, gpus) for name in ("wavetrim", "cupy-gpus") for gpus in (1, 2)
    }
    assert all(row.products_per_second > 0 and row.turns > 0 for row in rows)


@pytest.mark.gpu
def test_a_sweep_finds_the_time_of_every_f(tmp_path: Path) -> None:
    operands = draw_operands((1500, 1024, 1024), "float32")
    with Executor(cache_dir=tmp_path, devices=list_devices()) as executor:
        sweep = Sweep(executor, find_preset_profile(executor), operands.problem, None)
        row = sweep.measure(operands, 1.0)
    assert row.regret >= 1.0
    assert row.f in {point[0] for point in row.curve}
    assert all(point[1] > 0 and point[2] > 0 for point in row.curve)
    assert min(row.gpu_alone_seconds, *row.measured_seconds.values()) >= 0


@pytest.mark.gpu
def test_the_link_and_cublas_have_rates(tmp_path: Path) -> None:
    link = measure_links([0])
    assert link.in_gbytes_per_second > 1
    assert link.out_gbytes_per_second > 1
    operands = draw_operands((512, 512, 512), "float64")
    assert 0 < measure_compute(operands, device_index=0, cache_dir=tmp_path) < 1


# --- sweeps of F ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sms", [None, *HELD_SMS])
@pytest.mark.parametrize("shape", ALL_SHAPES)
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
    assert len(list_points(plan, most=10)) <= 14


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


def test_sweeps_write_regret_and_the_time_over_the_better_device(tmp_path: Path) -> None:
    record = Record(tmp_path / "host-here-sweeps.json", HEAD)
    bench = HostBench(
        Simulated(), H200, link=LINK, cache_dir=tmp_path, record=record,
        until=time.perf_counter() + 60,
    )  # fmt: skip
    small, large = (Product((size, size, size), "float32") for size in (64, 2048))
    bench.sweep([(small, None), (large, None), (large, 2)])
    alone, whole, split = read_host_file(tmp_path / "host-here-sweeps.json").regret
    assert (alone.shape, alone.sms, alone.is_split) == ((64, 64, 64), 132, False)
    assert (whole.sms, split.sms) == (132, 2)
    assert split.is_split
    for row in (alone, whole, split):
        assert row.regret >= 1
        assert row.f in [point[0] for point in row.curve]
    assert split.cpu_alone_seconds is not None
    better_seconds = min(split.gpu_alone_seconds, split.cpu_alone_seconds)
    assert split.over_better_alone == split.measured_seconds["total"] / better_seconds < 1
    assert (alone.over_better_alone, whole.over_better_alone) == (1, 1)


def test_products_that_take_too_long_are_not_swept() -> None:
    assert estimate_sweep_seconds(1e-4) == estimate_sweep_seconds(1e-3) < 0.9
    assert estimate_sweep_seconds(0.1) == USUAL_SECONDS + 0.1 + FINAL_SECONDS
    assert [count_final_turns(x) for x in (1e-4, 5e-3, 1.0)] == [25, 11, 5]
    assert estimate_sweep_seconds(1.0) == 0.0


# --- the file, and a run -------------------------------------------------------------------------


def test_a_small_run_writes_rows_of_checked_products(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    here = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    profile.write_text(json.dumps(here.as_dict()), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.host", "--seconds", "60", "--out", str(tmp_path)]
    command += ["--shapes", "64x48x32", "1x200x300", "--random", "2", "--seed", "2026-11-21"]
    command += ["--baselines", "wavetrim", "wavetrim-preset", "numpy", "--profile", str(profile)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    document = json.loads((tmp_path / f"host-cpu{usable_cores()}-sweeps.json").read_text())
    assert document["regret"] == []
    results = read_host_file(tmp_path / FILES["contests"].format(f"cpu{usable_cores()}"))
    assert results.document["seed"] == "2026-11-21"
    assert MachineProfile.from_dict(results.document["profile"]) == here
    found = {(row.shape, row.dtype, row.group, row.baseline) for row in results.rows}
    assert found == {
        (product.shape, product.dtype, product.group, name)
        for product in (*draw_products("2026-11-21", 2), *list_suite([(64, 48, 32), (1, 200, 300)]))
        for name in ("wavetrim", "wavetrim-preset", "numpy")
    }
    assert all(row.seconds > 0 and row.turns >= LEAST_TURNS for row in results.rows)
    assert len(results.document["left_out"]) == 6  # page-locked memory, without a GPU
