"""The split is the fastest of all divisions of the rows."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.profiles import find_preset_profile
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.schedule import Rates
from wavetrim.scheduler.model.cost import CpuCurve, rows_within
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.split import split_rows
from wavetrim.scheduler.problem import GemmProblem


@dataclass(frozen=True)
class TabulatedCurve:
    """Any non-decreasing curve, as a table of seconds for 0, 1, 2… rows."""

    table: tuple[float, ...]

    estimate: float = 0.0

    def seconds(self, rows: int) -> float:
        return self.table[rows]

    def estimate_rows(self, seconds: float) -> float:
        return self.estimate


@st.composite
def problems(draw, devices=st.integers(1, 4), rows=st.integers(0, 18)):
    m = draw(rows)
    steps = st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.0]), min_size=m, max_size=m)
    curves = []
    for _ in range(draw(devices)):
        table = [0.0]
        for step in draw(steps):
            table.append(table[-1] + step)
        curves.append(TabulatedCurve(tuple(table), draw(st.floats(-5.0, 25.0))))
    return m, curves


def try_every_split(m, curves):
    """The least time over every division of m rows (dynamic programme over the devices)."""
    least = [curves[0].seconds(rows) for rows in range(m + 1)]
    for curve in curves[1:]:
        least = [
            min(max(least[rows - own], curve.seconds(own)) for own in range(rows + 1))
            for rows in range(m + 1)
        ]
    return least[m]


def measure_split(shares, curves):
    return max(curve.seconds(rows) for rows, curve in zip(shares, curves, strict=True))


@given(problems())
def test_a_split_is_as_fast_as_the_best_of_all_splits(problem):
    m, curves = problem
    shares = split_rows(m, curves)
    assert sum(shares) == m
    assert all(share >= 0 for share in shares)
    assert measure_split(shares, curves) == try_every_split(m, curves)


@settings(max_examples=40)
@given(problems(devices=st.just(2), rows=st.integers(0, 300)))
def test_f_is_the_smallest_of_the_fastest(problem):
    m, (gpu, cpu) = problem
    times = [max(gpu.seconds(m - f), cpu.seconds(f)) for f in range(m + 1)]
    assert split_rows(m, [gpu, cpu])[1] == times.index(min(times))


@given(problems(devices=st.just(1)), st.floats(0, 200))
def test_rows_within_is_the_most_that_fits(problem, seconds):
    m, (curve,) = problem
    rows = rows_within(curve, seconds, m)
    assert curve.seconds(rows) <= seconds
    assert rows == m or curve.seconds(rows + 1) > seconds


RATES = st.builds(
    Rates,
    in_bytes_per_second=st.floats(1e8, 1e12),
    out_bytes_per_second=st.floats(1e8, 1e12),
    duplex=st.floats(1, 2),
    copy_seconds=st.floats(0, 1e-4),
    row_seconds=st.floats(0, 1e-6),
    enqueue_seconds=st.floats(0, 1e-4),
    call_seconds=st.floats(0, 1e-3),
    launch_seconds=st.floats(0, 1e-4),
    wave_seconds=st.floats(0, 1e-4),
    depth_seconds=st.floats(1e-10, 1e-6),
    memory_bytes_per_second=st.floats(1e10, 1e13),
)
GPU_CURVES = st.builds(
    GpuCurve,
    problem=st.builds(
        PanelProblem,
        m=st.integers(1, 10**6),
        n=st.integers(1, 3000),
        k=st.integers(1, 3000),
        item_bytes=st.sampled_from([2, 4, 8]),
        tile_m=st.integers(1, 200),
        tile_n=st.integers(1, 200),
        tile_k=st.integers(1, 32),
        slots=st.integers(1, 200),
        splits_tail=st.booleans(),
        splits_short=st.booleans(),
        staged=st.booleans(),
    ),
    rates=RATES,
    memory_bytes=st.just(1 << 40),
    start_seconds=st.floats(0, 3e-3),
)
CPU_CURVES = st.builds(
    CpuCurve,
    row_seconds=st.floats(1e-7, 1e-3),
    startup_rows=st.floats(0, 500),
    call_seconds=st.floats(0, 1e-3),
    row_quantum=st.integers(1, 64),
    vector_seconds=st.just(0.0) | st.floats(0, 1e-3),
)


def limit_rows(curve, rows):
    """Rows that the curve's product has."""
    return min(rows, curve.problem.m) if isinstance(curve, GpuCurve) else rows


@settings(max_examples=40)
@given(GPU_CURVES)
def test_the_share_of_time_with_copies_is_between_0_and_1(curve):
    assert 0 < curve.copying_share <= 1


@settings(max_examples=60)
@given(st.one_of(GPU_CURVES, CPU_CURVES), st.lists(st.integers(0, 10**6), min_size=2))
def test_device_curves_never_decrease(curve, rows):
    for fewer, more in pairwise(sorted(limit_rows(curve, one) for one in rows)):
        assert curve.seconds(fewer) <= curve.seconds(more) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("device", "shape", "rows"),
    [
        ("L4", (689, 839, 2896), 581),  # cuBLAS divides launches of less than a wave
        ("L4", (191, 2567, 1526), 130),
        ("A100 SXM 80", (4822, 1413, 37), 989),  # within a wave, copies take longer
        ("B200", (3176, 3040, 123), 710),
    ],
)
def test_no_schedule_is_faster_than_the_bound_of_its_rows(device, shape, rows):
    problem = GemmProblem(*shape, "float64", "pinned")
    curve = choose_plan(problem, find_preset_profile(device), PlanOptions(f=0)).gpu_alone_curve
    least_seconds = curve.find_least_seconds(rows)
    assert least_seconds <= curve.seconds(rows)
    assert least_seconds <= curve.find_timeline(rows)[1].seconds


@settings(max_examples=40)
@given(GPU_CURVES, st.floats(1, 8), st.floats(0, 1e-3))
def test_a_gpu_curve_beside_a_cpu_part_is_never_faster(curve, stretch, start_seconds):
    beside = curve.slow_by_cpu_part(stretch, start_seconds)
    m = curve.problem.m
    assert beside.find_least_seconds(m) <= beside.seconds(m) * (1 + 1e-9)
    assert curve.find_least_seconds(m) <= beside.find_least_seconds(m)


@settings(max_examples=20)
@given(GPU_CURVES, CPU_CURVES, st.integers(1, 400))
def test_real_curves_are_split_as_well_as_by_trying_every_f(gpu, cpu, m):
    gpu = replace(gpu, problem=replace(gpu.problem, m=m))
    shares = split_rows(m, [gpu, cpu])
    best = min(max(gpu.seconds(m - f), cpu.seconds(f)) for f in range(m + 1))
    assert measure_split(shares, [gpu, cpu]) <= best * (1 + 1e-12)


def test_rows_that_do_not_remove_a_wave_do_not_shorten_the_gpu_part():
    problem = PanelProblem(2048, 2048, 4096, 4, 128, 128, 16, 132)
    rates = Rates(1e15, 1e15, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e-6, 1e15)
    curve = GpuCurve(problem, rates, 1 << 40)
    waves = curve.grid.count_waves(2048)
    boundary = curve.grid.rows_in_waves(waves - 1)
    assert curve.kernel_seconds(boundary + 1) == curve.kernel_seconds(2048)
    assert curve.seconds(boundary + 1) == pytest.approx(curve.seconds(2048), rel=1e-3)
    assert curve.seconds(boundary) < 0.8 * curve.seconds(2048)
