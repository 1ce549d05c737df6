"""A plan as JSON, for the HTTP API, the command line and the engine's messages."""

from typing import Any

from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.team import GpuPart
from wavetrim.scheduler.profile.machine import LinkModel, MachineProfile


def describe_plan(plan: Plan) -> dict[str, Any]:
    """A plan as a run is told it: the decision, the prediction, and the figures that decided.

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
    parts = [
        {
            **_describe_place(part.rows, part.columns),
            "device": f"cuda:{plan.profile.gpus[part.position].index}",
            "name": plan.profile.gpus[part.position].device,
            "waves": part.waves,
            "seconds": part.seconds,
            "grid": _describe_grid(part),
        }
        for part in plan.gpu_parts
    ]
    if plan.f:
        rows, columns = range(plan.gpu_rows, plan.problem.m), range(plan.problem.n)
        seconds = plan.predicted.cpu_seconds
        cpu = {"device": "cpu", "name": "cpu", "waves": None, "seconds": seconds, "grid": None}
        parts.append({**_describe_place(rows, columns), **cpu})
    return parts


def _describe_place(rows: range, columns: range) -> dict[str, Any]:
    return {
        "first_row": rows.start,
        "rows": len(rows),
        "first_column": columns.start,
        "columns": len(columns),
    }


def _describe_grid(part: GpuPart) -> dict[str, Any]:
    """The tiles of a GPU's part, and how they fill its waves."""
    grid = part.curve.grid
    return {
        "tile_rows": grid.tile_m,
        "tile_columns": grid.tile_n,
        "tiles": grid.count_tiles(len(part.rows)),
        "slots": grid.slots,
        "waves": part.waves,
        "tail_utilization": part.tail_utilization,
        "tail_split": part.tail_split,
    }


def describe_profile(plan: Plan) -> dict[str, Any]:
    """The figures of the profile that decided this plan, each with its source."""
    rate = plan.profile.find_cpu_rate(plan.problem.dtype)
    profile = plan.profile.gpus[plan.positions[0]] if plan.positions else plan.profile
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
        "kernel": describe_kernel(plan, profile),
        "link": describe_link(plan, profile.find_link(plan.problem.memory)),
        "cpu": {
            "threads": plan.profile.cpu.threads,
            "threads_beside_gpu": plan.share.threads,
            "gflops": rate.gflops,
            "source": rate.source,
        },
    }


def describe_kernel(plan: Plan, gpu: MachineProfile) -> dict[str, Any] | None:
    """What is known of the plan's kernel on a GPU; None without one, or if it cannot run there."""
    model = gpu.find_kernel_model(plan.spec) if plan.spec else None
    if model is None:
        return None
    return {
        "slots": model.slots,
        "wave_seconds": model.wave_seconds + model.wave_k_seconds * plan.problem.k,
        "launch_seconds": model.launch_seconds,
        "source": model.source,
    }


def describe_link(plan: Plan, link: LinkModel | None) -> dict[str, Any] | None:
    """What is known of a link from the memory of the plan's operands; None without a link."""
    if link is None:
        return None
    return {
        "memory": plan.problem.memory,
        "in_gbytes_per_second": link.in_gbytes_per_second,
        "out_gbytes_per_second": link.out_gbytes_per_second,
        "call_seconds": link.call_seconds,
        "step_seconds": link.step_seconds,
        "source": link.source,
    }
