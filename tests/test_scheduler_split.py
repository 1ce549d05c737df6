"""The split is the fastest one: compared with every possible division of the rows."""

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.cost import CpuCurve, rows_within
from wavetrim.scheduler.gpu_curve import GpuCurve
from wavetrim.scheduler.split import split_rows
from wavetrim.scheduler.stream import ONE_STEP, Stream
from wavetrim.scheduler.waves import WaveGrid


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
def test_split_is_as_fast_as_the_best_of_all_splits(problem):
    m, curves = problem
    shares = split_rows(m, curves)
    assert sum(shares) == m
    assert all(share >= 0 for share in shares)
    assert measure_split(shares, curves) == try_every_split(m, curves)


@given(problems(devices=st.just(2), rows=st.integers(0, 300)))
def test_f_is_the_smallest_of_the_best_for_one_gpu_and_the_cpu(problem):
    m, (gpu, cpu) = problem
    times = [max(gpu.seconds(m - f), cpu.seconds(f)) for f in range(m + 1)]
    assert split_rows(m, [gpu, cpu])[1] == times.index(min(times))


@given(problems(devices=st.just(1)), st.floats(0, 200))
def test_rows_within_is_the_most_that_fits(problem, seconds):
    m, (curve,) = problem
    rows = rows_within(curve, seconds, m)
    assert curve.seconds(rows) <= seconds
    assert rows == m or curve.seconds(rows + 1) > seconds


GPU_CURVES = st.builds(
    GpuCurve,
    grid=st.builds(
        WaveGrid,
        n=st.integers(1, 3000),
        tile_m=st.integers(1, 200),
        tile_n=st.integers(1, 200),
        slots=st.integers(1, 200),
    ),
    wave_seconds=st.floats(1e-6, 1e-2),
    split_steps=st.none() | st.integers(1, 4000),
    lead_wave_seconds=st.none() | st.floats(1e-7, 1e-2),
    launch_seconds=st.floats(0, 1e-4),
    b_seconds=st.floats(0, 1e-2),
    row_in_seconds=st.floats(0, 1e-5),
    row_out_seconds=st.floats(0, 1e-5),
    stream=st.just(ONE_STEP)
    | st.builds(
        lambda first, steps, panel, last: Stream(first, steps, panel, min(last, panel)),
        *(st.integers(1, 5000), st.integers(1, 8), st.integers(1, 5000), st.integers(1, 5000)),
    ),
    step_seconds=st.floats(0, 1e-4),
    call_seconds=st.floats(0, 1e-3),
    together=st.floats(0.5, 2.0),
    copy_stretch=st.floats(1.0, 8.0),
    fill_seconds=st.floats(0, 1e-3),
    fill_rows=st.floats(1.0, 1e5),
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


@given(GPU_CURVES, st.integers(0, 10**6))
def test_copies_are_under_way_for_a_part_of_the_time(curve, rows):
    share = curve.find_copying_share(rows)
    assert 0 <= share <= 1
    slower = replace(curve, call_seconds=curve.call_seconds + 1e-3)
    assert slower.find_copying_share(rows) <= share * (1 + 1e-9)
    still = replace(curve, b_seconds=0.0, row_in_seconds=0.0, row_out_seconds=0.0)
    assert still.find_copying_share(rows) == 0


@given(st.one_of(GPU_CURVES, CPU_CURVES), st.lists(st.integers(0, 10**6), min_size=2))
def test_device_curves_never_decrease(curve, rows):
    for fewer, more in pairwise(sorted(rows)):
        assert curve.seconds(fewer) <= curve.seconds(more) * (1 + 1e-12)


@given(GPU_CURVES, CPU_CURVES, st.integers(1, 400))
def test_device_curves_are_split_as_well_as_by_trying_every_f(gpu, cpu, m):
    shares = split_rows(m, [gpu, cpu])
    best = min(max(gpu.seconds(m - f), cpu.seconds(f)) for f in range(m + 1))
    assert measure_split(shares, [gpu, cpu]) <= best * (1 + 1e-12)


def test_rows_that_do_not_remove_a_wave_do_not_shorten_the_gpu_part():
    grid = WaveGrid(n=2048, tile_m=4, tile_n=4, slots=132)
    curve = GpuCurve(grid, wave_seconds=1e-3)
    waves = grid.count_waves(2048)
    boundary = grid.rows_in_waves(waves - 1)
    assert curve.seconds(boundary + 1) == curve.seconds(2048)
    assert curve.seconds(boundary) < curve.seconds(2048)
