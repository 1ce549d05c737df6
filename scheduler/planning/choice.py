"""The choice of a plan: the CPU alone, GPUs alone, or a split; on one GPU or on several.

Both parts of a split work at the same time, so it takes as long as the longer one. The GPUs' time
rises with their rows, in waves, and the CPU's falls; so the best F is where they meet. A split must
promise to save a share of the better single device's time, `SPLIT_GAIN`, and each further GPU as
much. Pure: no array or device is touched. Plans are kept by shape (`PlanCache`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final, TypeAlias

from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.candidates import (
    check_residence,
    explain_no_kernel,
    find_candidates,
    find_positions,
)
from wavetrim.scheduler.planning.cpu_rows import CONTENTION, delay_end, find_cpu_seconds
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.scheduler.planning.plan import Plan, Prediction
from wavetrim.scheduler.planning.team import choose_side
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile

SPLIT_GAIN: Final[dict[Memory, float]] = {"pinned": 0.05, "pageable": 0.10}
"""Share of the better single device's time that a split must promise to save: one device is the
steadier choice. Staged copies want the CPU's cores as well."""

CAPACITY: Final = 1024
"""Plans that are kept; chosen, to bound host memory."""

_Question: TypeAlias = tuple[
    int, int, int, str, str, bool, PlanOptions | None, int, DeviceSet | None
]


class PlanCache:
    """The plans that were used last, by product and options. Thread-safe.

    A plan is chosen anew when runs have corrected a prediction by much (`profile.corrections`).
    That happens seldom, and takes some milliseconds.
    """

    def __init__(self) -> None:
        self._kept = LastUsed[_Question, Plan](CAPACITY)

    def choose(
        self,
        problem: GemmProblem,
        profile: MachineProfile,
        options: PlanOptions = NO_OPTIONS,
        device_set: DeviceSet | None = None,
    ) -> Plan:
        """The plan of `choose_plan`, which is called here once for equal arguments.

        Raises:
            PlanError: An option cannot be met. Refusals are not kept.
        """
        # Numbers and strings hash faster than dataclasses. A plan that is kept keeps its profile
        # alive, so no other profile gets the same id.
        question = (
            problem.m, problem.n, problem.k, problem.dtype, problem.memory, problem.b_resident,
            None if options is NO_OPTIONS else options, id(profile), device_set,
        )  # fmt: skip
        plan = self._kept.find(question)
        if plan is None or plan.version != profile.corrections.version:
            plan = choose_plan(problem, profile, options, device_set)
            self._kept.keep(question, plan)
        return plan


def choose_plan(
    problem: GemmProblem,
    profile: MachineProfile,
    options: PlanOptions = NO_OPTIONS,
    device_set: DeviceSet | None = None,
) -> Plan:
    """Choose kernel, GPUs and F for a product on a machine.

    Args:
        problem: The product.
        profile: The machine.
        options: Options of the plan.
        device_set: Devices that may be used; None for all.

    Raises:
        PlanError: An option cannot be met: the kernel or tile is unknown, cannot compute this
            product here or has another accuracy, f is outside 0…M, kernels cannot be limited
            to `sms` multiprocessors, one of `devices` is not there, or B is too large to stay.
    """
    f = options.f
    if f != "auto" and not 0 <= f <= problem.m:
        raise PlanError("f", f, f'"auto" or 0…{problem.m}, the rows of C')
    if problem.is_empty:
        return _choose_for_nothing(problem, profile, options, device_set)
    positions: Sequence[int] = find_positions(profile, options.devices)
    if device_set is not None:
        positions = tuple(position for position in positions if position in device_set)
        if CPU not in device_set and f == "auto":
            options = replace(options, f=0)
    if problem.b_resident:
        check_residence(problem, [profile.gpus[position] for position in positions])
    one, positions = _choose_first(problem, profile, options, positions)
    return _choose_gpus(one, options, positions)


def _choose_for_nothing(
    problem: GemmProblem,
    profile: MachineProfile,
    options: PlanOptions,
    device_set: DeviceSet | None,
) -> Plan:
    """The plan of an empty product, on the CPU. Options are checked as for the smallest product."""
    m, n, k = (max(1, size) for size in (problem.m, problem.n, problem.k))
    least = replace(problem, m=m, n=n, k=k)
    choose_plan(least, profile, replace(options, f="auto"), device_set)
    return choose_plan(least, profile, PlanOptions(devices="none"))


def _choose_first(
    problem: GemmProblem, machine: MachineProfile, options: PlanOptions, positions: Sequence[int]
) -> tuple[Plan, Sequence[int]]:
    """The plan on the fastest GPU, and all positions, the fastest first.

    Which of different GPUs is the fastest depends on the product: one of each model is tried.
    """
    if not positions:
        return choose_plan_on(problem, machine, options, ()), ()
    plans: dict[object, Plan | None] = {}
    refusals: list[PlanError] = []
    for position in positions:
        model = machine.gpus[position].gpu
        if model not in plans:
            plans[model] = None
            try:
                plans[model] = choose_plan_on(problem, machine, options, (position,))
            except PlanError as error:
                refusals.append(error)

    def rank(position: int) -> tuple[bool, float]:
        plan = plans[machine.gpus[position].gpu]
        return plan is None, (plan and plan.gpu_only_seconds) or inf

    ordered = sorted(positions, key=rank)
    fastest = plans[machine.gpus[ordered[0]].gpu]
    if fastest is None:
        raise refusals[0]
    return fastest, ordered


def _choose_gpus(one: Plan, options: PlanOptions, positions: Sequence[int]) -> Plan:
    """The best plan on some of the GPUs. Each further one must promise a gain."""
    if one.side is None:
        return one
    best, count, most = one, 1, len(positions)
    for more in range(2, most + 1):
        if most > 4 and more < most and more.bit_count() > 1:
            continue  # of many GPUs powers of two are tried, and all
        some, spec = positions[:more], one.side.spec
        plan = choose_plan_on(one.problem, one.profile, options, some, spec=spec)
        limit = (1 - SPLIT_GAIN[one.problem.memory]) ** (more - count) * best.chosen_seconds
        if len(plan.gpu_parts) == more and plan.chosen_seconds <= limit:
            best, count = replace(plan, one_gpu_seconds=one.gpu_only_seconds), more
    return best


def choose_plan_on(
    problem: GemmProblem,
    machine: MachineProfile,
    options: PlanOptions,
    positions: Sequence[int],
    *,
    spec: KernelSpec | None = None,
) -> Plan:
    """The best plan with these GPUs of a machine, and its CPU.

    Args:
        problem: The product.
        machine: The machine.
        options: Options of the plan, but for its devices.
        positions: Positions of the GPUs among those of the machine.
        spec: The only kernel to consider, if all of these GPUs run it; None to compare all.
    """
    f, m = options.f, problem.m
    version = machine.corrections.version  # before anything is predicted
    seconds = Prediction(0.0, find_cpu_seconds(problem, machine.cpu, m))
    on_cpu = Plan(problem, machine, tuple(positions), None, options.sms, version, m, (), seconds)
    gpus = [machine.gpus[position] for position in positions]
    # Without a GPU, candidates are those of a machine that has only its CPU: none.
    first = gpus[0] if gpus else replace(machine, gpu=None, links=(), kernels=(), beside=())
    specs = find_candidates(problem, first, options)
    others = [other.sheet.compute_capability for other in gpus[1:]]
    specs = tuple(one for one in specs if all(map(one.runs_on, others)))
    specs = tuple(one for one in specs if one is spec) or specs
    if not specs:
        reason = explain_no_kernel(problem, first, options)
        if f not in ("auto", m) and len(gpus) <= 1:  # one of several GPUs may run a kernel
            raise PlanError("f", f, f'"auto" or {m}: {reason}')
        return replace(on_cpu, no_gpu_reason=reason)
    sides = (choose_side(problem, machine, positions, one, options.sms) for one in specs)
    given = [replace(on_cpu, side=side).give_cpu(0 if f == "auto" else f) for side in sides]
    fastest = min(given, key=lambda one: one.chosen_seconds)
    return _choose_f(fastest) if f == "auto" else fastest


def _choose_f(on_gpu: Plan) -> Plan:
    """The GPUs alone, the CPU alone, or a split that promises its gain."""
    problem = on_gpu.problem
    on_cpu = on_gpu.give_cpu(problem.m)
    alone = min(on_cpu, on_gpu, key=lambda one: one.chosen_seconds)
    seconds = alone.chosen_seconds
    split = _find_split(on_gpu, seconds)
    if split is None or split.chosen_seconds >= seconds:
        return alone
    if split.chosen_seconds <= (1 - SPLIT_GAIN[problem.memory]) * seconds:
        return split
    return replace(alone, refused=split)


def _find_split(on_gpu: Plan, limit_seconds: float) -> Plan | None:
    """The best split; None if not even a lower bound is within the limit.

    Bisection finds the row of tiles where both parts take equally long, with a lower bound of the
    GPUs' seconds. That row is priced, and the search repeated with the bound scaled to its price,
    until it comes to a row that is priced already.
    """
    assert on_gpu.side is not None, "only rows of a GPU are split"
    problem, tile_m = on_gpu.problem, on_gpu.side.spec.tile.m
    m, cpu = problem.m, on_gpu.profile.cpu
    side = on_gpu.side.slow_copies(CONTENTION[problem.memory])
    gpu_factor, cpu_factor = (kind.factor.deciding for kind in on_gpu.find_kinds(is_split=True))
    scale, priced = gpu_factor, dict[int, Plan]()

    def find_cpu(rows: int) -> float:
        return delay_end(cpu_factor * find_cpu_seconds(problem, cpu, m - rows, beside_gpu=True))

    def find_gpu(rows: int) -> float:
        return scale * side.find_bound(rows) if rows else 0.0

    def find_longer(rows: int) -> float:
        return max(find_gpu(rows), find_cpu(rows))

    def is_gpu_longer(rows: int) -> bool:
        return find_gpu(rows) >= find_cpu(rows)

    while True:
        meeting = tile_m * bisect_left(range(0, m, tile_m), True, key=is_gpu_longer)
        near = [rows for rows in (meeting - tile_m, meeting) if 0 < rows < m]
        rows = min(near, key=find_longer, default=0)
        if not near or rows in priced or (not priced and find_longer(rows) > limit_seconds):
            return min(priced.values(), key=lambda one: one.chosen_seconds, default=None)
        priced[rows] = on_gpu.give_cpu(m - rows)
        scale = gpu_factor * priced[rows].uncorrected.gpu_seconds / side.find_bound(rows)
