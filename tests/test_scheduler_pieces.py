"""What the CPU takes at a time: worth its start, and never what the GPU would do sooner."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cost import CpuCurve
from scheduler.frontier import Frontier
from scheduler.pieces import LEAST_SECONDS, LEAST_SHARE, MOST_OVERHEAD, Pieces
from scheduler.plan import choose_plan
from scheduler.presets import PRESETS
from scheduler.problem import MEMORIES, GemmProblem
from scheduler.profile import build_preset_profile
from scheduler.wishes import Wishes
from tests.test_scheduler_split import CPU_CURVES, GPU_CURVES

SIZES = st.integers(1, 20_000)
H200 = build_preset_profile(next(gpu for gpu in PRESETS if gpu.name == "H200"), "test", 16)


@given(GPU_CURVES, CPU_CURVES, st.integers(2, 20_000), st.floats(0, 1), st.data())
def test_no_piece_takes_longer_than_the_gpu_with_all_that_is_left(gpu, cpu, rows, elapsed, data):
    pieces = Pieces(gpu, cpu, rows, total_seconds=data.draw(st.floats(1e-5, 1)))
    top = data.draw(st.integers(0, rows))
    bottom = data.draw(st.integers(top, rows))
    planned = data.draw(st.integers(0, rows))
    taken = pieces.choose_rows(top, bottom, planned, elapsed)
    assert 0 <= taken <= bottom - top
    assert cpu.seconds(taken) <= pieces.estimate_gpu_seconds(top, bottom, elapsed) * (1 + 1e-12)


@given(GPU_CURVES, CPU_CURVES, st.integers(2, 20_000), st.floats(0, 1), st.data())
def test_what_the_gpu_should_still_take_is_no_less_than_what_nobody_has_taken(
    gpu, cpu, rows, elapsed, data
):
    pieces = Pieces(gpu, cpu, rows, total_seconds=1.0)
    top = data.draw(st.integers(0, rows))
    left = gpu.seconds(rows) - gpu.seconds(top)
    assert pieces.estimate_gpu_seconds(top, rows, elapsed) >= left
    assert pieces.estimate_gpu_seconds(top, rows, 0.0) == gpu.seconds(rows)


@given(CPU_CURVES, st.floats(1e-5, 1))
def test_a_piece_is_worth_its_start(cpu, total_seconds):
    rows = 10**9
    pieces = Pieces(CpuCurve(1e-3), cpu, rows, total_seconds)
    more = cpu.seconds(pieces.least_rows + cpu.row_quantum)
    assert more >= max(LEAST_SECONDS, LEAST_SHARE * total_seconds)
    start_seconds = cpu.seconds(1) - cpu.row_quantum * cpu.row_seconds
    assert start_seconds <= MOST_OVERHEAD * (more - start_seconds) * (1 + 1e-6)


@given(SIZES, SIZES, SIZES, st.sampled_from(MEMORIES))
def test_the_first_piece_of_a_plan_is_half_of_it_or_all(m, n, k, memory):
    plan = choose_plan(GemmProblem(m, n, k, memory=memory), H200)
    if not 0 < plan.f < m:
        return
    pieces = Pieces(plan.gpu_curve, plan.cpu_curve, m, plan.predicted.total_seconds)
    assert 2 * pieces.choose_rows(0, m, plan.gpu_rows, 0.0) >= plan.f


@pytest.mark.parametrize("slower", [(1.0, 1.0), (1.5, 1.0), (1.0, 1.5), (4.0, 1.0)])
@pytest.mark.parametrize(
    ("shape", "sms"),
    [((16384, 16384, 256), None), ((65536, 256, 256), None), ((8192, 8192, 8192), 8)],
)
def test_a_wrong_prediction_costs_little_over_the_gpu_alone(shape, sms, slower):
    """Both parts played through, as much slower than their curves as `slower` says."""
    plan = choose_plan(GemmProblem(*shape, memory="pinned"), H200, Wishes(sms=sms))
    assert 0 < plan.f < shape[0]
    gpu_only_seconds = slower[1] * plan.gpu_only_seconds
    # A CPU that is far slower than planned is noticed when its first half is done; panels are a
    # quarter of one of these products.
    limit = max(1.15, slower[0] / 2 * 1.1) if slower[0] > slower[1] else 1.0
    assert play(plan, *slower) <= limit * gpu_only_seconds


def play(plan, cpu_slower, gpu_slower):
    """Seconds until both are done, pieces and panels taken as the frontier gives them."""
    m, total = plan.problem.m, plan.predicted.total_seconds
    pieces = Pieces(plan.gpu_curve, plan.cpu_curve, m, total)
    frontier = Frontier(m, plan.f, pieces)
    gpu, cpu = plan.gpu_curve, plan.cpu_curve
    panel = gpu.stream.panel_rows
    turns, end = [(0.0, "cpu"), (0.0, "gpu")], 0.0
    while turns:
        now, side = heapq.heappop(turns)
        rows = frontier.take_bottom(now) if side == "cpu" else frontier.take_top(panel)
        end = max(end, now)
        if not rows:
            continue
        seconds = cpu_slower * cpu.seconds(len(rows))
        if side == "gpu":
            seconds = gpu_slower * (gpu.seconds(rows.stop) - gpu.seconds(rows.start))
        heapq.heappush(turns, (now + seconds, side))
    return end
