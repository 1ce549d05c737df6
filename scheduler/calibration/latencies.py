"""Measures what products cost beyond the rates: steps, calls, and the start of copies."""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.schedule.cuts import take_whole
from wavetrim.scheduler.calibration.links import PipelineProfile, prepare_copies
from wavetrim.scheduler.calibration.repetition import repeat_in_pairs
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import LinkModel, MachineProfile

_STEP_SECONDS: Final = 0.15
_CALL_SECONDS: Final = 0.1
_FILL_SECONDS: Final = 0.12
"""Times of the measurements."""

_TINY: Final = 64
_STEPS: Final = 16
_COPIED: Final = GemmProblem(768, 768, 768, memory="pageable")
_MIDDLING: Final = (
    GemmProblem(256, 4096, 4096),
    GemmProblem(2048, 2048, 2048),
    GemmProblem(32768, 256, 256),
    GemmProblem(65536, 256, 256),
    GemmProblem(65536, 256, 256, "float64"),
)
"""Products: tiny ones, their number of steps, one that is copied whole first, and some of medium
size that are bound by copies in, or by copies both ways."""

_MOST_COPIED_GBYTES: Final = 200.0
"""Rate above which copies within host memory take no noticeable time."""


def measure_latencies(measured: PipelineProfile) -> MachineProfile:
    """The profile with the time that each step, call and copy costs beyond the links' rates."""

    def set_links(find: Callable[[LinkModel], LinkModel]) -> PipelineProfile:
        links = tuple(map(find, measured.profile.links))
        return replace(measured, profile=replace(measured.profile, links=links))

    step_seconds = measure_step(measured)
    measured = set_links(lambda link: replace(link, step_seconds=step_seconds))
    measured = set_links(
        lambda link: replace(link, call_seconds=measure_call(measured, link.memory))
    )
    copied = measure_copied(
        set_links(lambda link: replace(link, copied_gbytes_per_second=math.inf))
    )
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
    many_steps = replace(one_step, first_rows=rows, panel_rows=rows, last_rows=rows)
    more, less = (
        repeat_in_pairs(
            prepare_copies(measured, "pinned", problem.m, problem.n, problem.k, cut=cut),
            _STEP_SECONDS,
            until=measured.until,
        )
        for cut in (many_steps, one_step)
    )
    return max(0.0, more - less) / (_STEPS - 1)


def measure_call(measured: PipelineProfile, memory: Memory) -> float:
    """Time of a product before its first step: that of a tiny product, less its schedule's.

    Args:
        measured: The pipeline, with a profile by which a call takes no time.
        memory: The kind of host memory.
    """
    tiny = GemmProblem(_TINY, _TINY, _TINY, memory=memory)
    return max(0.0, _time_beyond(measured, tiny))


def measure_copied(measured: PipelineProfile) -> float:
    """Rate of copies within host memory, 1e9 bytes a second, of a product that is copied first.

    Args:
        measured: The pipeline, with a profile by which such copies take no time.
    """
    copied_gbytes = _COPIED.copied_bytes / 1e9
    return copied_gbytes / max(_time_beyond(measured, _COPIED), copied_gbytes / _MOST_COPIED_GBYTES)


def _time_beyond(measured: PipelineProfile, problem: GemmProblem) -> float:
    """Time of a brief product by cuBLAS, less its predicted time."""
    spec = find_kernel("cublas", problem.dtype)
    curve = measured.build_curve(spec, problem)
    seconds = repeat_in_pairs(
        prepare_copies(measured, problem.memory, problem.m, problem.n, problem.k),
        _CALL_SECONDS,
        until=measured.until,
    )
    return seconds - curve.seconds(problem.m)


def measure_fill(measured: PipelineProfile, memory: Memory) -> float:
    """Time of medium products beyond their curve: copies need time to reach their rates."""
    costs = []
    for middling in _MIDDLING:
        problem = replace(middling, memory=memory)
        plan = choose_plan(problem, measured.profile, PlanOptions(f=0))
        curve = plan.gpu_alone_curve
        assert plan.spec is not None, "without rows for the CPU there is a kernel"
        assert curve is not None, "and its curve"
        shape = problem.m, problem.n, problem.k
        seconds = repeat_in_pairs(
            prepare_copies(measured, memory, *shape, spec=plan.spec),
            _FILL_SECONDS,
            until=measured.until,
        )
        costs.append(seconds - curve.seconds(problem.m))
    return max(0.0, statistics.median(costs))
