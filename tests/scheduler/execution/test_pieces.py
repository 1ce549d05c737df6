"""What the CPU takes at a time: worth its start, and nothing that the GPU would do sooner."""

import heapq
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.scheduler.planning.test_split import CPU_CURVES, GPU_CURVES
from wavetrim.cpu.blocks import cut_strips
from wavetrim.kernels.pipeline.cuts import plan_steps
from wavetrim.kernels.pipeline.flow import PANELS_AHEAD
from wavetrim.scheduler.execution.outlook import Milestone, Standing
from wavetrim.scheduler.execution.pieces import LEAST_SECONDS, LEAST_SHARE, SLACK, Pieces
from wavetrim.scheduler.execution.row_queue import RowQueue
from wavetrim.scheduler.model.cost import CpuCurve
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.plan import choose_plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile

SIZES = st.integers(1_000, 20_000)
"""With 8 multiprocessors nearly all products of these sizes are split."""

H200 = build_preset_profile(next(gpu for gpu in PRESETS if gpu.name == "H200"), "test", 16)


@st.composite
def products_under_way(draw):
    """Pieces of a product, and how far its parts are."""
    rows = draw(st.integers(2, 20_000))
    gpu = draw(GPU_CURVES)
    pieces = Pieces(
        replace(gpu, problem=replace(gpu.problem, m=rows)),
        draw(CPU_CURVES),
        rows,
        planned=draw(st.integers(1, rows - 1)),
        total_seconds=draw(st.floats(1e-5, 1)),
        round_rows=draw(st.integers(1, rows)),
    )
    computed = sorted(
        Milestone(draw(st.integers(0, rows)), draw(st.floats(0, 1))) for _ in range(2)
    )
    top = draw(st.integers(computed[1].rows, rows))
    bottom = draw(st.integers(top, rows))
    elapsed_seconds = max(one.seconds for one in computed) + draw(st.floats(0, 1))
    return pieces, Standing(
        top,
        bottom,
        elapsed_seconds=elapsed_seconds,
        cpu_seconds=draw(st.floats(0, elapsed_seconds)),
        in_hand=draw(st.floats(0, rows - bottom)),
        computed=computed[1],
        computed_before=computed[0],
    )


@given(products_under_way())
def test_a_piece_is_of_rows_that_nobody_has_taken(product):
    pieces, standing = product
    assert 0 <= pieces.choose_rows(standing) <= standing.bottom - standing.top


@given(products_under_way())
def test_no_piece_but_the_first_ends_long_after_the_gpu_with_all_other_rows(product):
    pieces, standing = product
    rows = pieces.choose_rows(standing)
    if not rows or standing.bottom == pieces.rows:
        return
    # A piece is rounded up to a round, but the CPU's part is judged before that.
    part = min(rows, pieces._choose_part(standing))
    outlook = pieces.look(standing)
    gpu_seconds = outlook.estimate_gpu_seconds(standing.bottom - part)
    assert outlook.estimate_cpu_seconds(part) <= (
        gpu_seconds + SLACK * pieces.total_seconds + 1e-9 * abs(gpu_seconds) + 1e-12
    )


@given(CPU_CURVES, st.floats(1e-5, 1))
def test_a_piece_is_worth_its_start(cpu, total_seconds):
    rows = 10**9
    pieces = Pieces(CpuCurve(1e-3), cpu, rows, rows // 2, total_seconds, round_rows=1)
    more = cpu.seconds(pieces.least_rows + cpu.row_quantum) - cpu.seconds(1)
    assert more >= max(LEAST_SECONDS, LEAST_SHARE * total_seconds) * 0.99 - cpu.row_seconds


@given(SIZES, SIZES, SIZES, st.sampled_from(MEMORIES))
def test_the_first_piece_of_a_plan_is_half_of_it_or_more(m, n, k, memory):
    plan = choose_plan(GemmProblem(m, n, k, memory=memory), H200, PlanOptions(sms=8))
    assume(0 < plan.f < m)
    assert plan.f <= 2 * make_pieces(plan).choose_rows(Standing(0, m)) <= 2 * plan.f


@pytest.mark.parametrize("slower", [(1.0, 1.0), (1.5, 1.0), (1.0, 1.5), (4.0, 1.0)])
@pytest.mark.parametrize(
    ("shape", "sms"),
    [((16384, 16384, 256), None), ((65536, 512, 512), 8), ((8192, 8192, 8192), 8)],
)
def test_a_wrong_prediction_costs_little_over_the_gpu_alone(shape, sms, slower):
    """Both parts played through, as much slower than their curves as `slower` says."""
    plan = choose_plan(GemmProblem(*shape, memory="pinned"), H200, PlanOptions(sms=sms))
    assert 0 < plan.f < shape[0]
    gpu_only_seconds = slower[1] * plan.gpu_only_seconds
    # A CPU that is far slower than planned is noticed when its first half is done; panels are a
    # quarter of one of these products.
    limit = max(1.15, slower[0] / 2 * 1.1) if slower[0] > slower[1] else 1.0
    assert play(plan, *slower) <= limit * gpu_only_seconds


def make_pieces(plan):
    problem = plan.problem
    strips = cut_strips(plan.f, problem.n, problem.k, 14)
    total_seconds = plan.predicted.total_seconds
    return Pieces(
        *(plan.gpu_curve, plan.cpu_curve, problem.m, plan.gpu_rows),
        total_seconds,
        strips.round_rows,
    )


def play(plan, cpu_slower, gpu_slower):
    """Seconds until both are done, pieces and panels taken as the queue gives them."""
    m, now = plan.problem.m, 0.0
    row_queue = RowQueue(m, plan.f, make_pieces(plan), lambda: now)
    gpu, cpu = plan.gpu_curve, plan.cpu_curve
    panel = plan_steps(gpu.problem, gpu.rates, gpu.memory_bytes).cut.panel_rows
    turns, end, computed = [(0.0, "cpu"), (0.0, "gpu")], 0.0, [0.0] * PANELS_AHEAD
    while turns:
        now, side = heapq.heappop(turns)
        rows = row_queue.take_bottom(0.0) if side == "cpu" else row_queue.take_top(panel)
        if not rows:
            continue
        if side == "cpu":
            ready = now + cpu_slower * cpu.seconds(len(rows))
            heapq.heappush(turns, (ready, side))
        else:
            seconds = gpu_slower * (gpu.seconds(rows.stop) - gpu.seconds(rows.start))
            ready = computed[-1] + seconds
            computed.append(ready)
            heapq.heappush(turns, (max(now, computed[-PANELS_AHEAD]), side))
        end = max(end, ready)
    return end


def test_a_cpu_that_started_late_is_not_taken_for_a_slow_one() -> None:
    """Its threads start when the GPU's first copies are on their way."""
    line = CpuCurve(1e-4)
    pieces = Pieces(line, line, 2000, 1000, total_seconds=0.1, round_rows=10)
    late, slow = (
        pieces.look(Standing(1000, 1500, elapsed_seconds=0.08, cpu_seconds=seconds))
        for seconds in (0.05, 0.08)
    )
    assert late.estimate_cpu_seconds(500) == pytest.approx(0.05)
    assert slow.estimate_cpu_seconds(500) > 0.07
