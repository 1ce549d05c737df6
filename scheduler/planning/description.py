"""A plan as JSON, for the HTTP API, the command line and the engine's messages."""

from collections.abc import Iterable
from typing import Any, Final

from wavetrim.scheduler.model.waves import divide_up
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.team import list_members
from wavetrim.scheduler.profile.machine import LinkModel

_POINTS: Final = 512
"""Most points of a curve; chosen."""

_NEIGHBOURS: Final = 32
"""Values of F on each side of the plan's; chosen."""


def describe_plan(plan: Plan) -> dict[str, Any]:
    """All of a plan: the decision and the prediction.

    Kernel, tile, accuracy and sms are those of the GPU part; None if it has no rows. Speed-ups are
    the predicted time of one device alone over the predicted total; `speedup_over_gpu` is None if
    no GPU can compute the product.
    """
    total = plan.predicted.total_seconds
    gpu_only = plan.gpu_only_seconds
    return {
        "memory": plan.problem.memory,
        "f": plan.f,
        "gpu_rows": plan.gpu_rows,
        "kernel": plan.spec.name if plan.spec else None,
        "tile": str(plan.spec.tile) if plan.spec else None,
        "accuracy": plan.spec.accuracy if plan.spec else None,
        "sms": plan.sms if plan.spec else None,
        "waves": plan.waves,
        "waves_gpu_only": plan.waves_gpu_only,
        "tail_utilization": plan.tail_utilization,
        "tail_split": plan.tail_split,
        "devices": describe_devices(plan),
        "exchanges_b": plan.exchanges,
        "resident": plan.problem.b_resident and plan.gpu_rows > 0,
        "predicted": {
            "gpu_seconds": plan.predicted.gpu_seconds,
            "cpu_seconds": plan.predicted.cpu_seconds,
            "total_seconds": total,
        },
        "speedup_over_gpu": gpu_only / total if gpu_only is not None else None,
        "speedup_over_cpu": plan.cpu_only_seconds / total,
        "no_gpu_reason": plan.no_gpu_reason,
        "profile": describe_profile(plan),
    }


def describe_choice(plan: Plan) -> dict[str, Any]:
    """The few fields of a plan that are returned with a product."""
    return {
        "f": plan.f,
        "kernel": plan.spec.name if plan.spec else None,
        "accuracy": plan.spec.accuracy if plan.spec else None,
        "predicted": {"total_seconds": plan.predicted.total_seconds},
    }


def describe_devices(plan: Plan) -> list[dict[str, Any]]:
    """Rows, columns, waves and predicted seconds of each device that has rows, in their order."""
    gpus = plan.profile.gpus
    parts: list[dict[str, Any]] = [
        {
            "device": f"cuda:{gpus[part.position].index}",
            "name": gpus[part.position].device,
            "rows": len(part.rows),
            "columns": len(part.columns),
            "waves": part.waves,
            "seconds": part.seconds,
        }
        for part in plan.gpu_parts
    ]
    if plan.f:
        parts.append(
            {
                "device": "cpu",
                "name": "cpu",
                "rows": plan.f,
                "columns": plan.problem.n,
                "waves": None,
                "seconds": plan.predicted.cpu_seconds,
            }
        )
    return parts


def describe_profile(plan: Plan) -> dict[str, Any]:
    """The figures of the profile that decided this plan, each with its source."""
    rate = plan.profile.find_cpu_rate(plan.problem.dtype)
    profile = plan.profile.gpus[plan.positions[0]] if plan.positions else plan.profile
    model = profile.find_kernel_model(plan.spec) if plan.spec else None
    memory = plan.problem.memory
    link = _find_link(plan)
    return {
        "device": profile.device,
        "source": profile.source,
        "corrections": [
            {"runs_like": one.run_class.name, "runs": one.runs, "factor": one.factor}
            for one in plan.corrections
            if one.runs
        ],
        "measured_at": profile.measured_at,
        "sm_count": profile.gpu.sm_count if profile.gpu else None,
        "kernel": model
        and {
            "slots": model.slots,
            "wave_seconds": model.wave_seconds + model.wave_k_seconds * plan.problem.k,
            "launch_seconds": model.launch_seconds,
            "source": model.source,
        },
        "link": link
        and {
            "memory": memory,
            "in_gbytes_per_second": link.in_gbytes_per_second,
            "out_gbytes_per_second": link.out_gbytes_per_second,
            "call_seconds": link.call_seconds,
            "step_seconds": link.step_seconds,
            "source": link.source,
        },
        "cpu": {
            "threads": plan.profile.cpu.threads,
            "threads_beside_gpu": plan.share.threads,
            "gflops": rate.gflops,
            "source": rate.source,
        },
    }


def _find_link(plan: Plan) -> LinkModel | None:
    """The link of the plan's first GPU."""
    profile = plan.profile.gpus[plan.positions[0]] if plan.positions else plan.profile
    return profile.find_link(plan.problem.memory)


def describe_curve(plan: Plan) -> list[dict[str, float]]:
    """Predicted seconds over F, at wave boundaries, thinned evenly, and around the plan's F.

    Returns:
        Points `{f, gpu_seconds, cpu_seconds, total_seconds}` by rising F, among them F = M, the
        plan's F, and F = 0 if a GPU can compute the product.
    """
    problem = plan.problem
    if plan.gpu_curve is None:
        return [_describe_point(plan, problem.m)]
    drawn = {0, plan.f, problem.m} | _list_neighbours(plan)
    drawn.update(_list_boundaries(plan, room=_POINTS - len(drawn)))
    return [_describe_point(plan, f) for f in sorted(drawn)]


def _describe_point(plan: Plan, f: int) -> dict[str, float]:
    predicted = plan.predict(f)
    return {
        "f": f,
        "gpu_seconds": predicted.gpu_seconds,
        "cpu_seconds": predicted.cpu_seconds,
        "total_seconds": predicted.total_seconds,
    }


def _list_boundaries(plan: Plan, room: int) -> Iterable[int]:
    """At most `room` values of F, each the least that saves a certain number of waves."""
    assert plan.gpu_curve is not None, "only a GPU has waves"
    members, m = list_members(plan.gpu_curve), plan.problem.m
    grid, parts = members[0].grid, 1 if plan.divides_columns else len(members)
    waves = range(1, grid.count_waves(divide_up(m, parts)))
    for number in range(min(room, len(waves))):
        some = waves[number * len(waves) // min(room, len(waves))]
        yield m - min(m, parts * grid.rows_in_waves(some))


def _list_neighbours(plan: Plan) -> set[int]:
    """Values of F around the plan's, in steps of about a thousandth of M."""
    m, f = plan.problem.m, plan.f
    step = max(1, m // 1024)
    around = range(f - _NEIGHBOURS * step, f + _NEIGHBOURS * step + 1, step)
    return {value for value in around if 0 <= value <= m}
