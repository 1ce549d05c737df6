"""`wavetrim plan`: how a product would be split."""

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wavetrim.service.cli import options, sizes

if TYPE_CHECKING:
    from wavetrim.scheduler.planning.plan import Plan

EXAMPLES: Final = """[bold]Examples[/]

wavetrim plan 4096 4096 4096
wavetrim plan 2048 2048 2048 --device H200 --kernel shared --tile 4
wavetrim plan 8192 8192 8192 --device H200 --accuracy float32 --sms 66
wavetrim plan 16384 16384 256 --device H200 --memory pinned --timeline
wavetrim plan 64 8192 8192 --device H200 --memory pinned --resident
wavetrim plan 16384 16384 256 --device T4 --cpu-threads 64 --link-gbytes-per-second 25
wavetrim plan 16384 16384 16384 --device "H100 SXM x2" --memory pinned
wavetrim plan --m 16384 --n 16384 --k 256 --dtype float64 --device "A100 SXM 40" --json
"""

_PLOT_WIDTH: Final = 100


def plan(
    m: sizes.M = None,
    n: sizes.N = None,
    k: sizes.K = None,
    *,
    named_m: sizes.NamedM = None,
    named_n: sizes.NamedN = None,
    named_k: sizes.NamedK = None,
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
    kernel: options.Kernel = "auto",
    tile: options.Tile = None,
    f: options.F = "auto",
    accuracy: options.Accuracy = None,
    sms: options.Sms = None,
    devices: options.Devices = None,
    resident: Annotated[
        bool,
        typer.Option(
            "--resident",
            help="What if B were on the GPUs already, as after many jobs with it.",
            rich_help_panel="What if",
        ),
    ] = False,
    cpu_threads: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            help="What if the CPU had this many threads: its rates grow with them.",
            show_default="this machine's",
            rich_help_panel="What if",
        ),
    ] = None,
    cpu_gflops: Annotated[
        float | None,
        typer.Option(
            "--cpu-gflops",
            metavar="RATE",
            help="What if the CPU alone had this rate in this element type.",
            show_default="as measured or estimated",
            rich_help_panel="What if",
        ),
    ] = None,
    link_gbytes_per_second: Annotated[
        float | None,
        typer.Option(
            "--link-gbytes-per-second",
            metavar="RATE",
            help="What if the GPU's link had this rate each way.",
            show_default="as measured or estimated",
            rich_help_panel="What if",
        ),
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show when copies, kernels and the CPU are at work.")
    ] = False,
    as_json: options.Json = False,
    profile_dir: options.ProfileDir = None,
) -> None:
    """Show how C = A·B would be split, and why: F, waves, predicted seconds.

    Nothing is computed, and the GPU need not be here: `wavetrim devices` lists the presets. With a
    preset the CPU is this machine's, by its calibration if there is one.
    """
    from wavetrim.scheduler.problem import GemmProblem, find_memory
    from wavetrim.scheduler.profile.what_if import WhatIf
    from wavetrim.service.cli.machine import load_machine_settings, plan_here, read_plan_options

    typed = sizes.choose_sizes((m, n, k), (named_m, named_n, named_k))
    chosen = plan_here(
        GemmProblem(*typed, dtype, find_memory(memory), resident),
        load_machine_settings(profile_dir=profile_dir),
        device=device,
        options=read_plan_options(
            kernel=kernel, tile=tile, f=f, accuracy=accuracy, sms=sms, devices=devices
        ),
        what_if=WhatIf(cpu_threads, cpu_gflops, link_gbytes_per_second),
    )
    if as_json:
        typer.echo(json.dumps(chosen.describe(drawing=timeline), indent=2))
    else:
        _print_tables(chosen, with_timeline=timeline)


def _print_tables(plan: "Plan", *, with_timeline: bool) -> None:
    from wavetrim.scheduler.planning.description import describe_plan
    from wavetrim.scheduler.planning.queues import list_queues
    from wavetrim.service.cli.terminal.display import (
        make_plan_table,
        make_source_table,
        open_output,
    )
    from wavetrim.service.cli.terminal.plot import draw_curve
    from wavetrim.service.cli.terminal.timeline import draw_timeline

    console = open_output()
    problem = plan.problem
    m, n, k = problem.m, problem.n, problem.k
    console.print(f"C[{m},{n}] = A[{m},{k}] · B[{k},{n}], {problem.dtype}", markup=False)
    described = describe_plan(plan)
    console.print(make_plan_table(described, m))
    console.print("\nwhere the numbers come from")
    console.print(make_source_table(described))
    width, ascii_only = min(console.width, _PLOT_WIDTH), console.options.ascii_only
    if with_timeline:
        drawn = draw_timeline(list_queues(plan), width=width, ascii_only=ascii_only)
        console.print("\ntimeline")
        console.print(drawn, soft_wrap=True)
    if plan.gpu_curve is None:
        console.print(f"F = M: {plan.no_gpu_reason}.", markup=False)
        return
    console.print("\nseconds over F")
    plot = draw_curve(
        plan.predict,
        plan.f,
        m,
        step_seconds=plan.gpu_curve.seconds(m) / max(1, plan.waves_gpu_only),
        width=width,
        ascii_only=ascii_only,
    )
    console.print(plot, soft_wrap=True)
