"""A plan as JSON, for the HTTP API, the command line and the engine's messages."""

from dataclasses import asdict
from typing import Any

from wavetrim.scheduler.planning.choice import SPLIT_GAIN
from wavetrim.scheduler.planning.drawing import (
    describe_curve,
    describe_ranges,
    describe_schedule,
    find_near_f,
)
from wavetrim.scheduler.planning.gpu_rows import (
    LAUNCH_SECONDS,
    GpuPart,
    build_rates,
    count_slots,
    find_rate,
)
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.profile.estimate import estimate_joint
from wavetrim.scheduler.profile.machine import MachineProfile


def describe_plan(plan: Plan) -> dict[str, Any]:
    """A plan in the answer of a run: the decision, the prediction, and the figures that decided.

    Kernel, tile, accuracy and sms are those of the GPU part; None if it has no rows. Speed-ups are
    the predicted time of one device alone over the predicted total; `speedup_over_gpu` is None if
    no GPU can compute the product.
    """
    total, gpu_only = plan.predicted.total_seconds, plan.gpu_only_seconds
    grid = _describe_grid(plan.gpu_parts[0]) if plan.gpu_parts else {}
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
        "tail_utilization": grid.get("tail_utilization", 0.0),
        "tail_split": grid.get("tail_split", False),
        "devices": _describe_devices(plan),
        "exchanges_b": plan.exchanges,
        "resident": plan.problem.b_resident and plan.gpu_rows > 0,
        "predicted": plan.predicted.describe(),
        "speedup_over_gpu": gpu_only / total if gpu_only is not None else None,
        "speedup_over_cpu": plan.cpu_only_seconds / total,
        "no_gpu_reason": plan.no_gpu_reason,
        "profile": _describe_profile(plan),
    }


def describe_choice(plan: Plan) -> dict[str, Any]:
    """The few fields of a plan that are returned with a product."""
    return {
        "f": plan.f,
        "kernel": plan.spec.name if plan.spec else None,
        "accuracy": plan.spec.accuracy if plan.spec else None,
        "predicted": {"total_seconds": plan.predicted.total_seconds},
    }


def describe_fully(plan: Plan, *, drawing: bool) -> dict[str, Any]:
    """All of a plan, as `/v1/plan` answers it: `describe_plan`, and what explains it.

    Drawings need the schedule, too, which has an entry for each step.
    """
    described = describe_plan(plan)
    side, refused = plan.side, plan.refused
    member = side.members[0] if side else None
    profile = {**described["profile"], "gpus": _describe_gpus(plan), "joint": _describe_joint(plan)}
    return {
        **described,
        "divides_columns": plan.divides_columns,
        "slots": member.problem.slots if member else None,
        "wave_seconds": member.rates.find_wave_seconds(plan.problem.k) if member else None,
        "f_one_wave_less": _drop_wave(plan),
        "gpu_only_seconds": plan.gpu_only_seconds,
        "cpu_only_seconds": plan.cpu_only_seconds,
        "uncorrected_seconds": plan.uncorrected.total_seconds,
        "least_gain": SPLIT_GAIN[plan.problem.memory],
        "refused_split": {"f": refused.f, "seconds": refused.chosen_seconds} if refused else None,
        "profile": profile,
        "curve": describe_curve(plan),
        "near_f": find_near_f(plan),
        "schedule": describe_schedule(plan) if drawing else None,
    }


def _describe_devices(plan: Plan) -> list[dict[str, Any]]:
    """Rows, columns, waves and predicted seconds of each device that has rows, in their order."""
    factor = plan.kinds[0].factor.reported
    parts = [
        {
            **describe_ranges(part.rows, part.columns),
            "device": f"cuda:{plan.profile.gpus[part.position].index}",
            "name": plan.profile.gpus[part.position].device,
            "waves": part.waves,
            "seconds": factor * part.seconds,
            "grid": _describe_grid(part),
        }
        for part in plan.gpu_parts
    ]
    if plan.f:
        rows, columns = range(plan.gpu_rows, plan.problem.m), range(plan.problem.n)
        seconds = plan.predicted.cpu_seconds
        cpu = {"device": "cpu", "name": "cpu", "waves": None, "seconds": seconds, "grid": None}
        parts.append({**describe_ranges(rows, columns), **cpu})
    return parts


def _describe_grid(part: GpuPart) -> dict[str, Any]:
    """The tiles of a GPU's part, and how they fill its waves."""
    problem = part.problem
    return {
        "tile_rows": problem.tile_m,
        "tile_columns": problem.tile_n,
        "tiles": problem.count_tiles(problem.m),
        "slots": problem.slots,
        "waves": part.waves,
        "tail_utilization": problem.find_tail_utilization(problem.m),
        # A last wave that is divided along K takes about its filled share.
        "tail_split": problem.find_waves(problem.m, problem.n, problem.k) < part.waves,
    }


def _drop_wave(plan: Plan) -> int | None:
    """The least F with which each GPU that has rows needs at least one wave less."""
    rows = [part.problem.find_rows_in_waves(part.waves - 1) for part in plan.gpu_parts]
    if not rows:
        return None
    return plan.problem.m - (min(rows) if plan.divides_columns else sum(rows))


def _describe_profile(plan: Plan) -> dict[str, Any]:
    """The numbers of the profile that decided this plan, each group with its source."""
    machine = plan.profile
    profile = machine.gpus[plan.positions[0]] if plan.positions else machine
    parts = [kind for kind, has in zip(plan.kinds, (plan.gpu_rows, plan.f), strict=True) if has]
    cpu, dtype = machine.cpu, plan.problem.dtype
    return {
        "device": profile.device,
        **_describe_gpu(plan, profile),
        "corrections": [
            {"runs_like": kind.name, "runs": kind.factor.runs, "factor": kind.factor.reported}
            for kind in parts
            if kind.factor.runs
        ],
        "cpu": {
            "threads": cpu.threads,
            "threads_beside_gpu": plan.split_threads,
            "gflops": cpu.find_gflops(dtype),
            "read_gbytes_per_second": cpu.read_gbytes_per_second,
            "write_gbytes_per_second": cpu.write_gbytes_per_second,
            "start_seconds": cpu.start_seconds,
            "source": cpu.source,
        },
    }


def _describe_gpus(plan: Plan) -> list[dict[str, Any]]:
    """The machine's GPUs, each with its kernel and its link."""
    return [
        {"device": f"cuda:{gpu.index}", "name": gpu.device, **_describe_gpu(plan, gpu)}
        for gpu in plan.profile.gpus
    ]


def _describe_gpu(plan: Plan, gpu: MachineProfile) -> dict[str, Any]:
    """What is known of a GPU, of the plan's kernel there, and of the link of its memory."""
    return {
        "source": gpu.source,
        "measured_at": gpu.measured_at,
        "sm_count": gpu.gpu and gpu.gpu.sm_count,
        "kernel": _describe_kernel(plan, gpu),
        "link": asdict(gpu.find_link(plan.problem.memory)) if gpu.links else None,
    }


def _describe_kernel(plan: Plan, gpu: MachineProfile) -> dict[str, Any] | None:
    """What is known of the plan's kernel on a GPU; None without one, or if it cannot run there."""
    spec = plan.spec
    if spec is None or gpu.gpu is None or not spec.runs_on(gpu.gpu.compute_capability):
        return None
    rate = find_rate(gpu, spec)
    wave_seconds = build_rates(plan.problem, gpu, spec).find_wave_seconds(plan.problem.k)
    return {
        "slots": count_slots(spec, gpu.gpu.sm_count),
        "gflops": rate.gflops,
        "wave_seconds": wave_seconds,
        "launch_seconds": LAUNCH_SECONDS,
        "source": rate.source,
    }


def _describe_joint(plan: Plan) -> dict[str, Any] | None:
    """The rates of all GPUs' links together; None for one GPU, or staged copies."""
    machine = plan.profile
    if len(machine.gpus) < 2 or plan.problem.memory == "pageable":
        return None
    links = [gpu.find_link(plan.problem.memory) for gpu in machine.gpus]
    return asdict(machine.joint or estimate_joint(links))
