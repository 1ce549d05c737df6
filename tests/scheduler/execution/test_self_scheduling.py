"""Both parts end together: at the planned rows if the plan is right, at others if not."""

import heapq
from dataclasses import replace
from math import exp, log
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.profiles import H200
from wavetrim.cpu.blocks import cut_strips
from wavetrim.kernels.schedule.cuts import plan_steps
from wavetrim.native.tuned import PANELS_AHEAD
from wavetrim.scheduler.execution.row_queue import RowQueue
from wavetrim.scheduler.execution.self_scheduling import Progress, SelfSchedule
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem


@st.composite
def schedules_under_way(draw: st.DrawFn) -> tuple[SelfSchedule, Progress]:
    """A schedule, and the progress of its parts."""
    rows = draw(st.integers(2, 20_000))
    schedule = SelfSchedule(
        rows=rows,
        planned=draw(st.integers(1, rows - 1)),
        total_seconds=draw(st.floats(1e-5, 1)),
        round_rows=draw(st.integers(1, rows)),
        tile_rows=draw(st.sampled_from([8, 64, 128])),
    )
    top = draw(st.integers(0, rows))
    bottom = draw(st.integers(top, rows))
    elapsed_seconds = draw(st.floats(0, 2))
    progress = Progress(
        top,
        bottom,
        gpu_rows=(gpu_rows := draw(st.integers(0, top))),
        gpu_seconds=(gpu_seconds := draw(st.floats(0, elapsed_seconds))),
        first_rows=draw(st.integers(0, gpu_rows)),
        first_seconds=draw(st.floats(0, gpu_seconds)),
        elapsed_seconds=elapsed_seconds,
        cpu_rows=draw(st.floats(0, rows - bottom)),
        cpu_seconds=draw(st.floats(0, elapsed_seconds)),
    )
    return schedule, progress


@given(schedules_under_way())
def test_shares_pieces_and_limits_lie_in_the_rows_not_taken(
    product: tuple[SelfSchedule, Progress],
) -> None:
    schedule, progress = product
    if progress.bottom == schedule.rows and progress.top <= schedule.planned:
        assert schedule.find_share(progress) == schedule.rows - schedule.planned
    rows = progress.bottom - progress.top
    assert 0 <= schedule.find_share(progress) <= rows
    assert 0 <= schedule.choose_piece(progress) <= max(rows, 0)
    assert progress.top <= schedule.find_limit(progress) <= progress.bottom


@given(st.integers(2, 20_000), st.floats(1e-4, 1), st.floats(0.0, 0.9), st.data())
def test_parts_that_are_as_fast_as_planned_keep_the_planned_boundary(
    rows: int, total_seconds: float, done: float, data: st.DataObject
) -> None:
    planned = data.draw(st.integers(1, rows - 1))
    schedule = SelfSchedule(rows, planned, total_seconds, round_rows=1, tile_rows=1)
    f = rows - planned
    progress = Progress(
        top=int(done * planned),
        bottom=rows - int(done * f),
        gpu_rows=done * planned,
        gpu_seconds=done * total_seconds,
        elapsed_seconds=done * total_seconds,
        cpu_rows=done * f,
        cpu_seconds=done * total_seconds,
    )
    assert abs(progress.bottom - schedule.find_share(progress) - planned) <= 1


@pytest.mark.parametrize("times", [0.25, 0.5, 2.0, 4.0])
def test_a_slower_cpu_has_a_smaller_share(times: float) -> None:
    schedule = SelfSchedule(10_000, 6000, 0.1, round_rows=1, tile_rows=1)
    shares = [
        schedule.find_share(
            Progress(
                top=3000, bottom=8000, gpu_rows=3000, gpu_seconds=0.05, elapsed_seconds=0.05,
                cpu_rows=2000 / slowness, cpu_seconds=0.05,
            )
        )
        for slowness in (1.0, times)
    ]  # fmt: skip
    assert shares[0] == 2000
    assert (shares[1] < shares[0]) == (times > 1)


@pytest.mark.parametrize("late_seconds", [0.0, 0.03, 0.08])
def test_a_late_first_panel_does_not_make_the_gpu_slow(late_seconds: float) -> None:
    schedule = SelfSchedule(10_000, 6000, 0.1, round_rows=1, tile_rows=1)
    now = 0.02 + late_seconds
    first = Progress(
        top=4000, bottom=round(10_000 - 40_000 * now), gpu_rows=1000, gpu_seconds=now,
        first_rows=1000, first_seconds=now, elapsed_seconds=now,
        cpu_rows=40_000 * now, cpu_seconds=now,
    )  # fmt: skip
    # Both share what is not computed at their planned speeds, whenever the panel came.
    due = 0.4 * (first.bottom - first.gpu_rows)
    assert schedule.find_share(first) == pytest.approx(due, abs=1)


def test_the_cpu_takes_its_planned_rows_before_any_others() -> None:
    schedule = SelfSchedule(10_000, 6000, 0.1, round_rows=100, tile_rows=128)
    late = Progress(
        top=3000, bottom=8000, gpu_rows=10, gpu_seconds=0.06, elapsed_seconds=0.06,
        cpu_rows=2000, cpu_seconds=0.05,
    )  # fmt: skip
    assert schedule.find_share(late) > 3000
    assert schedule.choose_piece(late) <= 2000
    done = replace(late, bottom=6000, cpu_rows=4000, elapsed_seconds=0.1, cpu_seconds=0.1)
    assert schedule.choose_piece(done) > 0


def test_the_first_piece_is_half_of_the_cpus_part_in_whole_rounds() -> None:
    schedule = SelfSchedule(10_000, 6000, 0.1, round_rows=300, tile_rows=128)
    assert schedule.choose_piece(Progress(0, 10_000)) == 2100


def choose_splits() -> list[Plan]:
    """Splits of products on some multiprocessors of an H200 by its data sheet."""
    shapes = [
        *((16384, 16384, 256, None), (65536, 512, 512, 8), (8192, 8192, 8192, 8)),
        *((3000, 2500, 9000, 8), (10_000, 1000, 4000, 4), (5890, 4956, 3037, 8)),
        *((20_000, 3000, 700, 16), (3314, 2837, 14_341, 4)),
    ]
    plans = [
        choose_plan(GemmProblem(m, n, k, memory="pinned"), H200, PlanOptions(sms=sms))
        for m, n, k, sms in shapes
    ]
    return [plan for plan in plans if 0 < plan.f < plan.problem.m]


def play(
    plan: Plan, *, moves: bool, cpu_times: float, gpu_times: float, late: float = 0.0
) -> float:
    """Simulate a plan; returns the seconds until both parts are done.

    The CPU reports four times a piece; a later piece costs 50 µs.

    Args:
        plan: The plan.
        moves: Whether the boundary moves.
        cpu_times: How much longer the CPU takes than its curve.
        gpu_times: How much longer the GPU takes than its curve.
        late: Delay of the GPU's start, as a share of the plan's time. Each panel is reported half
            as late again.
    """
    m, now = plan.problem.m, 0.0
    late_seconds = late * plan.predicted.total_seconds
    gpu, cpu = plan.gpu_curve, plan.cpu_curve
    assert gpu is not None
    strips = cut_strips(plan.f, plan.problem.n, plan.problem.k, 14)
    schedule = SelfSchedule(
        rows=m, planned=plan.gpu_rows, total_seconds=plan.predicted.total_seconds,
        round_rows=strips.round_rows, tile_rows=gpu.problem.tile_m,
    )  # fmt: skip
    queue = RowQueue(m, plan.f, schedule if moves else None, lambda: now)
    panel = plan_steps(gpu.problem, gpu.rates, gpu.memory_bytes).cut.panel_rows
    turns: list[tuple[float, str, float]] = [(0.0, "cpu", 0.0), (0.0, "gpu", 0.0)]
    end, computed = 0.0, [late_seconds] * PANELS_AHEAD
    while turns:
        now, side, told = heapq.heappop(turns)
        if side == "tell":
            queue.note_cpu_rows(told)
            continue
        rows = queue.take_bottom(0.0) if side == "cpu" else queue.take_top(panel)
        if not rows:
            continue
        if side == "cpu":
            first = rows.stop == m
            seconds = cpu.seconds(len(rows)) - (0.0 if first else cpu.seconds(2) - 50e-6)
            seconds *= cpu_times
            for quarter in range(1, 5):
                heapq.heappush(turns, (now + seconds * quarter / 4, "tell", len(rows) / 4))
            ready = now + seconds
            heapq.heappush(turns, (ready, "cpu", 0.0))
        else:
            seconds = gpu_times * (gpu.seconds(rows.stop) - gpu.seconds(rows.start))
            computed.append(computed[-1] + seconds)
            ready = computed[-1]
            known = computed[-PANELS_AHEAD]
            known += late_seconds / 2 if known > late_seconds else -late_seconds
            heapq.heappush(turns, (max(now, known), side, 0.0))
        end = max(end, ready)
    rest = queue.take_rest()
    return end + (cpu_times * cpu.seconds(len(rest)) if rest else 0.0)


@pytest.mark.parametrize(
    ("cpu_times", "gpu_times", "late", "mean", "most"),
    [(1.0, 1.0, 0.0, 1.005, 1.01), (1.1, 1.0, 0.0, 1.005, 1.03), (0.9, 1.0, 0.0, 1.02, 1.03),
     (1.0, 1.0, 0.2, 1.005, 1.1), (1.3, 1.3, 0.2, 1.0, 1.1), (2.0, 1.0, 0.0, 0.8, 1.0),
     (4.0, 1.0, 0.0, 0.7, 1.0), (1.0, 2.0, 0.0, 0.97, 1.02)],
)  # fmt: skip
def test_a_moving_boundary_costs_little_and_saves_much(
    cpu_times: float, gpu_times: float, late: float, mean: float, most: float
) -> None:
    """Times over those of the planned F pinned: their geometric mean, and the largest."""
    plans = choose_splits()
    assert len(plans) >= 5
    ratios = []
    for plan in plans:
        moving, pinned = (
            play(plan, moves=moves, cpu_times=cpu_times, gpu_times=gpu_times, late=late)
            for moves in (True, False)
        )
        ratios.append(moving / pinned)
    assert exp(fmean(map(log, ratios))) <= mean, ratios
    assert max(ratios) <= most, ratios
