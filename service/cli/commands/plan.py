"""`wavetrim plan`: how a product would be split."""

from functools import partial
from typing import Annotated, Final

import typer

from wavetrim.kernels.device import select_devices
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.drawing import list_queues
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.split import SPLIT_GAIN
from wavetrim.scheduler.problem import GemmProblem, find_memory
from wavetrim.scheduler.profile.store import find_profile, is_elsewhere
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if
from wavetrim.service.cli import machine, options
from wavetrim.service.cli.terminal import display
from wavetrim.service.cli.terminal.plot import draw_curve
from wavetrim.service.cli.terminal.timeline import draw_timeline
from wavetrim.service.machine_settings import MachineSettings
from wavetrim.service.storage.arena.memory_limit import count_memory

_PLOT_WIDTH: Final = 100
_what_if = partial(typer.Option, rich_help_panel="What if")


def plan(
    m: options.M,
    n: options.N,
    k: options.K,
    *,
    dtype: options.Dtype = "float32",
    memory: options.Memory = "pageable",
    device: Annotated[
        str | None,
        typer.Option(
            help="GPU to plan for: a local one (cuda:0, name, UUID), a preset, several of one"
            " (H200 x2), or cpu.",
            show_default="this machine",
        ),
    ] = None,
    split: options.SplitOptions,
    resident: Annotated[
        bool,
        _what_if(
            "--resident", help="What if B were on the GPUs already, as after many jobs with it."
        ),
    ] = False,
    cpu_threads: Annotated[
        int | None,
        _what_if(
            metavar="COUNT",
            help="What if the CPU had this many threads: its rates grow with them.",
            show_default="this machine's",
        ),
    ] = None,
    cpu_gflops: Annotated[
        float | None,
        _what_if(
            metavar="RATE",
            help="What if the CPU alone had this rate in this element type.",
            show_default="as measured or estimated",
        ),
    ] = None,
    link_gbytes_per_second: Annotated[
        float | None,
        _what_if(
            metavar="RATE",
            help="What if the GPU's link had this rate each way.",
            show_default="as measured or estimated",
        ),
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show when copies, kernels and the CPU are at work.")
    ] = False,
    as_json: options.Json = False,
    profile_dir: options.ProfileDir = None,
) -> None:
    """Show how C = A·B would be split, and why: F, waves, predicted seconds.

    Nothing is computed, and the GPU need not be here: `wavetrim devices` lists the presets. Beside
    a preset the CPU is this machine's, as it was calibrated or is estimated.

    Example:
        wavetrim plan 4096 4096 4096 --device H100
        wavetrim plan 16384 16384 256 --device "T4 x2" --memory pinned --timeline
    """
    problem = GemmProblem(m, n, k, dtype, find_memory(memory), resident)
    asked = split.read()
    what_if = WhatIf(cpu_threads, cpu_gflops, link_gbytes_per_second)
    settings = machine.load_machine_settings(profile_dir=profile_dir)
    chosen = _plan_here(problem, settings, device=device, asked=asked, what_if=what_if)
    if as_json:
        display.print_json(chosen.describe(drawing=timeline))
    else:
        _print_tables(chosen, with_timeline=timeline)


def _plan_here(
    problem: GemmProblem,
    settings: MachineSettings,
    *,
    device: str | None,
    asked: PlanOptions,
    what_if: WhatIf,
) -> Plan:
    """Plan a product for this machine, or for the device that is named.

    Raises:
        FieldError: The plan cannot be made.
    """
    # A GPU that is named need not be here, and neither need those of the settings.
    devices = machine.find_devices(settings) if device is None else select_devices(settings.devices)
    profile = find_profile(
        device,
        devices=devices,
        directory=settings.profile_dir,
        cpu_threads=machine.count_threads(settings),
    )
    problem.check_fits(None if is_elsewhere(device, devices) else count_memory())
    return choose_plan(problem, apply_what_if(profile, what_if, problem.dtype), asked)


def _print_tables(plan: Plan, *, with_timeline: bool) -> None:
    console = display.open_output()
    problem = plan.problem
    m, n, k = problem.m, problem.n, problem.k
    console.print(f"C[{m},{n}] = A[{m},{k}] · B[{k},{n}], {problem.dtype}", markup=False)
    described = describe_plan(plan)
    console.print(display.make_plan_table(described, m))
    if (refused := plan.refused) is not None:
        times, least = plan.chosen_seconds / refused.seconds, 1 - SPLIT_GAIN[problem.memory]
        text = f"F = {refused.f} would be {times:.2f} times as fast; below {1 / least:.2f}"
        console.print(f"{text} no split is made, as one device is the steadier choice")
    console.print("\nwhere the numbers come from")
    console.print(display.make_source_table(described))
    width = min(console.width, _PLOT_WIDTH)
    if with_timeline:
        console.print("\ntimeline")
        console.print(draw_timeline(list_queues(plan), width=width), soft_wrap=True)
    if plan.times.alone is None or plan.gpu_only_seconds is None:
        console.print(f"F = M: {plan.no_gpu_reason}.", markup=False)
        return
    console.print("\nseconds over F")
    plot = draw_curve(
        plan.predict,
        plan.f,
        m,
        step_seconds=plan.gpu_only_seconds / max(1, plan.waves_gpu_only),
        width=width,
    )
    console.print(plot, soft_wrap=True)
