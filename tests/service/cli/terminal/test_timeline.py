"""The timeline of a plan: each queue's busy times in characters, of the predicted lengths."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.queues import Queue, Span, list_queues
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile
from wavetrim.service.cli.terminal.timeline import draw_timeline, share_columns

PROFILES = [build_preset_profile(gpu, "test", 16) for gpu in PRESETS]
SIZES = st.integers(1, 20_000)


def plan_on(gpu: int, m: int, n: int, k: int, f: int | None = None) -> Plan:
    options = PlanOptions(f="auto" if f is None else f)
    return choose_plan(GemmProblem(m, n, k, memory="pinned"), PROFILES[gpu], options)


@given(st.integers(0, len(PRESETS) - 1), SIZES, SIZES, SIZES)
def test_a_timeline_ends_when_the_plan_does(gpu: int, m: int, n: int, k: int) -> None:
    plan = plan_on(gpu, m, n, k)
    ends = [span.end for queue in list_queues(plan) for span in queue.spans]
    assert max(ends) == pytest.approx(plan.predicted.total_seconds)


def test_each_side_that_has_rows_is_drawn() -> None:
    queues = {
        f: [queue.work for queue in list_queues(plan_on(0, 5000, 500, 500, f))]
        for f in (0, 700, 5000)
    }
    assert queues[0] == ["copy in", "kernel", "copy out"]
    assert queues[700] == ["copy in", "kernel", "copy out", "cpu"]
    assert queues[5000] == ["cpu"]


def test_corrections_stretch_the_timeline() -> None:
    plan = plan_on(0, 5000, 500, 500, 0)
    assert plan.gpu_alone_curve is not None
    curve = plan.gpu_alone_curve
    slower = replace(curve, correction=replace(curve.correction, factor=3.0))
    later = replace(plan, gpu_alone_curve=slower, gpu_curve=slower).move(0, plan.spec)
    first, last = (list_queues(one)[1].spans[-1].end for one in (plan, later))
    assert last == pytest.approx(3 * first)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1), st.integers(1, 50))
def test_columns_share_all_of_the_time(pairs: list[tuple[float, float]], columns: int) -> None:
    times = sorted(time for pair in pairs for time in pair)
    spans = tuple(Span(*pair) for pair in zip(times[::2], times[1::2], strict=True))
    shares = share_columns(spans, 1 / columns, columns)
    busy_seconds = sum(span.end - span.begin for span in spans)
    assert sum(shares) / columns == pytest.approx(busy_seconds, abs=1e-9)


def test_a_queue_is_a_line_and_a_wait_a_gap() -> None:
    queues = [
        Queue("cuda:0", "copy in", (Span(0.0, 1.0),)),
        Queue("cuda:0", "kernel", (Span(1.0, 2.0), Span(3.0, 4.0))),
    ]
    drawn = draw_timeline(queues, width=17, ascii_only=True).plain.splitlines()
    assert drawn == ["copy in  @@", "kernel     @@  @@", "         0 4.00 s"]


def test_queues_of_several_gpus_are_named_by_them() -> None:
    names = ("cuda:0", "cuda:2")
    queues = [Queue(name, "kernel", (Span(0.0, 1.0),)) for name in names]
    queues.append(Queue("cpu", "cpu", (Span(0.0, 1.0),)))
    first, second, cpu, _ = draw_timeline(queues, width=30, ascii_only=True).plain.splitlines()
    assert [first[:13], second[:13], cpu[:4]] == ["cuda:0 kernel", "cuda:2 kernel", "CPU "]
