"""Measures what products cost beyond the rates: steps, calls, the start of copies, and teams."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.schedule.cuts import take_whole
from wavetrim.scheduler.calibration.links import PipelineProfile, prepare_copies, prepare_run
from wavetrim.scheduler.calibration.repetition import repeat_in_pairs
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.kernel_choice import choose_plan_on
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem, Memory
from wavetrim.scheduler.profile.machine import LinkModel, MachineProfile

_ROUNDS: Final = 3
_STEP_SECONDS: Final = 0.05
_CALL_SECONDS: Final = 0.05
_FILL_SECONDS: Final = 0.12
_TEAM_SECONDS: Final = 0.06
"""Rounds of brief measurements, and the time of each measurement; chosen."""

_TINY: Final = 64
_STEPS: Final = 16
"""Sides of tiny products, and the steps of one that is cut into many; chosen."""

_CALLED: Final = GemmProblem(_TINY, _TINY, _TINY)
_COPIED: Final = GemmProblem(768, 768, 768, memory="pageable")
_BRIEF: Final = (_COPIED, *(replace(_CALLED, memory=memory) for memory in MEMORIES))
"""A product of a single step, and one that is copied whole first. The first is measured from both
kinds of memory."""

_MIDDLING: Final = (
    GemmProblem(256, 4096, 4096),
    GemmProblem(2048, 2048, 2048),
    GemmProblem(32768, 256, 256),
    GemmProblem(65536, 256, 256),
    GemmProblem(65536, 256, 256, "float64"),
)
"""Products of medium size that are bound by copies in, or by copies both ways; chosen."""

_SHARED: Final = (
    GemmProblem(900, 900, 900, memory="pinned"),
    GemmProblem(1280, 1280, 1280, memory="pinned"),
    GemmProblem(2304, 2304, 2304, memory="pinned"),
    GemmProblem(384, 4000, 1100, memory="pinned"),
    GemmProblem(24576, 768, 768, memory="pinned"),
    GemmProblem(1792, 1792, 1792, "float64", memory="pinned"),
)
"""Products that several GPUs share in 0.1 to 1 ms; chosen."""

_MOST_COPIED_GBYTES: Final = 200.0
"""Rate above which copies within host memory take no noticeable time."""


def measure_latencies(measured: PipelineProfile) -> MachineProfile:
    """The profile with the time that each step, call and copy costs beyond the links' rates.

    Brief products are measured in several rounds, with other measurements in between: on a virtual
    machine they take up to twice as long for a while.
    """

    def set_links(find: Callable[[LinkModel], LinkModel]) -> PipelineProfile:
        links = tuple(map(find, measured.profile.links))
        return replace(measured, profile=replace(measured.profile, links=links))

    rounds, steps = [], []
    for _ in range(_ROUNDS):
        rounds.append({problem: _time_brief(measured, problem) for problem in _BRIEF})
        steps.append(measure_step(measured))
    seconds = {one: statistics.median(times[one] for times in rounds) for one in _BRIEF}
    measured = set_links(lambda link: replace(link, step_seconds=statistics.median(steps)))
    measured = set_links(
        lambda link: replace(link, call_seconds=_find_call(measured, link.memory, seconds))
    )
    fast = set_links(lambda link: replace(link, copied_gbytes_per_second=math.inf))
    copied = _find_copied(fast, seconds[_COPIED])
    measured = set_links(lambda link: replace(link, copied_gbytes_per_second=copied))
    return set_links(
        lambda link: replace(link, fill_seconds=measure_fill(measured, link.memory))
    ).profile


def measure_step(measured: PipelineProfile) -> float:
    """Time to enqueue a step: a product in many tiny steps, less the same product in one step.

    In page-locked memory, where copies and kernels of such steps take less than enqueueing them.
    """
    spec = find_kernel("cublas", "float32")
    problem = GemmProblem(_STEPS * spec.tile.m, _TINY, _TINY, memory="pinned")
    one_step = take_whole(measured.build_curve(spec, problem).problem)
    rows = spec.tile.m
    many_steps = one_step._replace(first_rows=rows, panel_rows=rows, last_rows=rows)
    more, less = (
        repeat_in_pairs(
            prepare_copies(measured, "pinned", problem.m, problem.n, problem.k, cut=cut),
            _STEP_SECONDS,
            until=measured.until,
        )
        for cut in (many_steps, one_step)
    )
    return max(0.0, more - less) / (_STEPS - 1)


def _find_call(
    measured: PipelineProfile, memory: Memory, seconds: Mapping[GemmProblem, float]
) -> float:
    """Time of a product before its first step: that of a tiny product, less its schedule's.

    Args:
        measured: The executor, with a profile by which a call takes no time.
        memory: The kind of host memory.
        seconds: Times of brief products.
    """
    tiny = replace(_CALLED, memory=memory)
    return max(0.0, seconds[tiny] - measured.plan(tiny).predicted.total_seconds)


def _find_copied(measured: PipelineProfile, seconds: float) -> float:
    """Rate of copies within host memory, 1e9 bytes a second, of a product that is copied first.

    Args:
        measured: The executor, with a profile by which such copies take no time.
        seconds: Time of that product.
    """
    copied_gbytes = _COPIED.copied_bytes / 1e9
    beyond = seconds - measured.plan(_COPIED).predicted.total_seconds
    return copied_gbytes / max(beyond, copied_gbytes / _MOST_COPIED_GBYTES)


def _time_brief(measured: PipelineProfile, problem: GemmProblem) -> float:
    """Time of a brief product by cuBLAS."""
    return _time_plan(measured, measured.plan(problem), _CALL_SECONDS)


def _time_plan(measured: PipelineProfile, plan: Plan, budget_seconds: float) -> float:
    """Time of a plan, as users run it."""
    run = prepare_run(measured, plan)

    def measure() -> float:
        started = time.perf_counter()
        run()
        return time.perf_counter() - started

    return repeat_in_pairs(measure, budget_seconds, until=measured.until)


def measure_fill(measured: PipelineProfile, memory: Memory) -> float:
    """Time of medium products beyond their curve: copies need time to reach their rates."""
    costs = []
    for middling in _MIDDLING:
        plan = measured.plan(replace(middling, memory=memory), kernel=PlanOptions().kernel)
        seconds = _time_plan(measured, plan, _FILL_SECONDS)
        costs.append(seconds - plan.predicted.total_seconds)
    return max(0.0, statistics.median(costs))


def measure_team_calls(measured: PipelineProfile, counts: Sequence[int]) -> list[float | None]:
    """Time of a product on several GPUs beyond its curve: that of the host and of their waits.

    In rounds, as other brief products are. More GPUs take no less.

    Args:
        measured: An executor with all of the GPUs, and a profile by which that takes no time.
        counts: Numbers of GPUs, rising.

    Returns:
        The time for each number; None where no product that calibration knows is shared by so many.
    """
    rounds = [[_time_team(measured, gpus) for gpus in counts] for _ in range(_ROUNDS)]
    calls: list[float | None] = []
    least_seconds = 0.0
    for costs in zip(*rounds, strict=True):
        known = [seconds for seconds in costs if seconds is not None]
        if known:
            least_seconds = max(least_seconds, statistics.median(known))
        calls.append(least_seconds if known else None)
    return calls


def _time_team(measured: PipelineProfile, gpus: int) -> float | None:
    """Median of what some products on so many GPUs take beyond their curves; None without one."""
    costs = []
    for problem in _SHARED:
        plan = choose_plan_on(problem, measured.profile, PlanOptions(f=0), range(gpus))
        if len(plan.gpu_parts) == gpus:
            seconds = _time_plan(measured, plan, _TEAM_SECONDS)
            costs.append(seconds - plan.predicted.total_seconds)
    return statistics.median(costs) if costs else None
