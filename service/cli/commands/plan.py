"""`wavetrim plan`: how a product would be split."""

from pathlib import Path
from typing import Final

from wavetrim.scheduler.planning.choice import SPLIT_GAIN, choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.drawing import describe_schedule
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, find_memory
from wavetrim.scheduler.profile.store import is_elsewhere
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if
from wavetrim.service.cli import display, options
from wavetrim.service.cli.machine import find_machine
from wavetrim.service.cli.plot import compare_splits, draw_timeline
from wavetrim.service.storage.arena.memory_limit import count_memory

_TIMELINE_WIDTH: Final = 100


def plan(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    memory: str = "pageable",
    device: str | None = None,
    split: options.SplitOptions,
    resident: bool = False,
    cpu_threads: int | None = None,
    cpu_gflops: float | None = None,
    link_gbytes_per_second: float | None = None,
    timeline: bool = False,
    as_json: options.Json = False,
    profile_dir: Path | None = None,
) -> None:
    """Show how C = A·B would be split, and why: F, waves, predicted seconds.

    Nothing is computed, and the GPU need not be here: `wavetrim devices` lists the presets. With a
    preset the CPU is still this machine's, calibrated or estimated.

    Options:
        device (; this machine): GPU to plan for: a local one (cuda:0, name, UUID), a preset,
            several of one kind (H200 x2), or cpu.
        timeline: Show when copies, kernels and the CPU are at work.

    What if:
        resident: What if B were on the GPUs already, as after many jobs with it.
        cpu_threads (COUNT; this machine's): What if the CPU had this many threads: its rates grow
            with them.
        cpu_gflops (RATE; as measured or estimated): What if the CPU alone had this rate in this
            element type.
        link_gbytes_per_second (RATE; as measured or estimated): What if the GPU's link had this
            rate each way.

    Example:
        wavetrim plan 4096 4096 4096 --device H100
        wavetrim plan 16384 16384 256 --device "T4 x2" --memory pinned --timeline
    """
    problem = GemmProblem(m, n, k, dtype, find_memory(memory), resident)
    asked = split.read()
    what_if = WhatIf(cpu_threads, cpu_gflops, link_gbytes_per_second)
    here = find_machine(profile_dir=profile_dir, device=device)
    profile = apply_what_if(here.find_profile(device), what_if, dtype)
    problem.check_fits(None if is_elsewhere(device, here.devices) else count_memory())
    chosen = choose_plan(problem, profile, asked)
    if as_json:
        display.print_json(chosen.describe(drawing=timeline))
    else:
        _print_tables(chosen, with_timeline=timeline)


def _print_tables(plan: Plan, *, with_timeline: bool) -> None:
    console = display.open_output()
    problem = plan.problem
    m, n, k = problem.m, problem.n, problem.k
    console.print(f"C[{m},{n}] = A[{m},{k}] · B[{k},{n}], {problem.dtype}", markup=False)
    described = describe_plan(plan)
    console.print(display.make_plan_table(described, m))
    if (refused := plan.refused) is not None:
        times, least = plan.chosen_seconds / refused.chosen_seconds, 1 - SPLIT_GAIN[problem.memory]
        text = f"F = {refused.f} would be {times:.2f} times as fast; below {1 / least:.2f}"
        console.print(f"{text} no split is made, as one device is the steadier choice")
    console.print("\nwhere the numbers come from")
    console.print(display.make_source_table(described))
    if with_timeline:
        console.print("\ntimeline")
        width = min(console.width, _TIMELINE_WIDTH)
        console.print(draw_timeline(describe_schedule(plan), width=width), soft_wrap=True)
    if plan.side is None or plan.gpu_only_seconds is None:
        console.print(f"F = M: {plan.no_gpu_reason}.", markup=False)
        return
    console.print("\nseconds over F")
    console.print(compare_splits(plan))
