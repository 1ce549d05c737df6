"""A plan as `/v1/plan` answers it: what a run is told of it, and what explains it."""

from typing import Any

from wavetrim.scheduler.planning.curve_points import (
    describe_curve,
    describe_drawn_curve,
    find_near_f,
)
from wavetrim.scheduler.planning.description import describe_kernel, describe_link, describe_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.queues import Queue, Span, list_queues, merge_spans
from wavetrim.scheduler.planning.team import list_members
from wavetrim.scheduler.profile.joint import LinkRates, estimate_joint_links


def explain_plan(plan: Plan, *, drawing: bool) -> dict[str, Any]:
    """All of a plan, ready for JSON.

    Args:
        plan: The plan.
        drawing: Whether it is for drawings: it then has the schedule, and a curve that is dense
            near the split. Both take time.
    """
    described = describe_plan(plan)
    profile = {**described["profile"], "gpus": _describe_gpus(plan), "joint": _describe_joint(plan)}
    members = list_members(plan.gpu_curve) if plan.gpu_curve else ()
    return {
        **described,
        "divides_columns": plan.divides_columns,
        "slots": members[0].problem.slots if members else None,
        "wave_seconds": members[0].wave_seconds if members else None,
        "f_one_wave_less": _drop_wave(plan),
        "gpu_only_seconds": plan.gpu_only_seconds,
        "cpu_only_seconds": plan.cpu_only_seconds,
        "uncorrected_seconds": plan.uncorrected_seconds,
        "profile": profile,
        "curve": describe_drawn_curve(plan) if drawing else describe_curve(plan),
        "near_f": find_near_f(plan) if drawing else None,
        "schedule": [_describe_queue(plan, one) for one in list_queues(plan)] if drawing else None,
    }


def _drop_wave(plan: Plan) -> int | None:
    """The least F with which each GPU that has rows needs at least one wave less."""
    rows = [part.curve.grid.rows_in_waves(part.waves - 1) for part in plan.gpu_parts]
    if not rows:
        return None
    return plan.problem.m - (min(rows) if plan.divides_columns else sum(rows))


def _describe_gpus(plan: Plan) -> list[dict[str, Any]]:
    """The machine's GPUs, each with its kernel and its link."""
    return [
        {
            "device": f"cuda:{gpu.index}",
            "name": gpu.device,
            "source": gpu.source,
            "measured_at": gpu.measured_at,
            "sm_count": gpu.gpu and gpu.gpu.sm_count,
            "kernel": describe_kernel(plan, gpu),
            "link": describe_link(plan, gpu.find_link(plan.problem.memory)),
        }
        for gpu in plan.profile.gpus
    ]


def _describe_joint(plan: Plan) -> dict[str, Any] | None:
    """What the links of the GPUs that have rows reach together; None for one."""
    memory = plan.problem.memory
    gpus = [plan.profile.gpus[part.position] for part in plan.gpu_parts]
    links = [link for gpu in gpus if (link := gpu.find_link(memory))]
    if len(links) < 2:
        return None
    rates = [
        LinkRates(1e9 * one.in_gbytes_per_second, 1e9 * one.out_gbytes_per_second, 2 * one.together)
        for one in links
    ]
    joint = gpus[0].find_joint(memory, len(links)) or estimate_joint_links(memory, rates)
    return {
        "in_gbytes_per_second": joint.in_gbytes_per_second,
        "out_gbytes_per_second": joint.out_gbytes_per_second,
        "both_gbytes_per_second": joint.both_gbytes_per_second,
        "peer_gbytes_per_second": gpus[0].peer_gbytes_per_second,
        "source": joint.source,
    }


def _describe_queue(plan: Plan, queue: Queue) -> dict[str, Any]:
    spans = merge_spans(queue.spans, plan.predicted.total_seconds)
    return {
        "device": queue.device,
        "queue": queue.work,
        "spans": [_describe_span(span) for span in spans],
    }


def _describe_span(span: Span) -> dict[str, Any]:
    rows, columns = span.rows, span.columns
    return {
        "begin_seconds": span.begin,
        "end_seconds": span.end,
        "first_row": rows.start if rows else None,
        "rows": len(rows) if rows else None,
        "first_column": columns.start if columns else None,
        "columns": len(columns) if columns else None,
        "depth": span.depth,
    }
