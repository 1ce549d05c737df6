"""`wavetrim calibrate`: measure this machine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wavetrim.service.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from wavetrim.kernels.device import DeviceInfo
    from wavetrim.scheduler.problem import Memory
    from wavetrim.scheduler.profile.machine import MachineProfile
    from wavetrim.service.cli.steadiness import Steadiness

EXAMPLES: Final = """[bold]Examples[/]

wavetrim calibrate
wavetrim calibrate --profile-dir /var/lib/wavetrim/profiles
"""


def calibrate(
    *,
    profile_dir: options.ProfileDir = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Store the profile even if runs differ by more than 15%."),
    ] = False,
) -> None:
    """Measure this machine's CPU, links and kernels, and store the profile.

    It takes about 20 s for each model of GPU, and some seconds for each further GPU.

    Later plans use it: those of the service from the next job on. The profile holds for this GPU,
    driver, libraries and number of threads. The same product is timed before and after: if its
    runs differ by more than 15%, predictions may be off by as much, and an existing profile is
    kept. Other programs are reported if the system's counters show them at work.
    """
    from wavetrim.scheduler.calibration.calibrate import CALIBRATION_SECONDS
    from wavetrim.scheduler.calibration.gpus import calibrate_gpus
    from wavetrim.scheduler.execution.executor import Executor
    from wavetrim.scheduler.profile.store import find_profile, store_profile
    from wavetrim.service.cli.folders import check_folder
    from wavetrim.service.cli.machine import count_threads, find_devices, load_machine_settings
    from wavetrim.service.cli.other_load import describe_others, read_core_times
    from wavetrim.service.cli.steadiness import Steadiness
    from wavetrim.service.cli.terminal.display import (
        announce_compiling,
        open_notes,
        open_output,
        show_share,
    )

    settings = load_machine_settings(profile_dir=profile_dir)
    check_folder("--profile-dir", settings.profile_dir)

    def open_executor(devices: "Sequence[DeviceInfo]") -> Executor:
        return Executor(
            cache_dir=settings.kernel_cache_dir,
            devices=devices,
            cpu_threads=count_threads(settings),
            gpu_memory_bytes=settings.gpu_memory_bytes,
        )

    executor = open_executor(find_devices(settings))
    steadiness, notes = Steadiness(), open_notes()
    before = find_profile(
        None,
        devices=executor.devices,
        directory=settings.profile_dir,
        cpu_threads=executor.pool.threads,
    )
    with (
        executor,
        announce_compiling(notes),
        show_share(notes, "measure", seconds=CALIBRATION_SECONDS) as move,
    ):
        at_first = read_core_times()
        steadiness.measure(executor, before)
        machine = calibrate_gpus(
            open_executor,
            executor.devices,
            cache_dir=settings.kernel_cache_dir,
            report=lambda what, share: move(min(share, 0.95), what),
        )
        steadiness.measure(executor, machine)
        others = describe_others(at_first, read_core_times())
    output = open_output()
    for profile in machine.gpus or (machine,):
        _print_profile(profile, output)
    if others:
        notes.print(others, markup=False)
    had_profile = before.measured_at is not None
    check_steadiness(
        steadiness, notes, saw_others=others is not None, had_profile=had_profile, force=force
    )
    for profile in machine.gpus or (machine,):
        path = store_profile(replace(profile, beside=()), settings.profile_dir)
        output.print(f"stored in {path}", markup=False, soft_wrap=True)
    for joint in machine.joint:
        output.print(
            f"{joint.gpus} GPUs together: {joint.in_gbytes_per_second:.1f} GB/s in, "
            f"{joint.out_gbytes_per_second:.1f} out, {joint.both_gbytes_per_second:.1f} both ways"
        )
    if machine.peer_gbytes_per_second:
        output.print(f"GPU to GPU: {machine.peer_gbytes_per_second:.1f} GB/s each way")


def check_steadiness(
    steadiness: "Steadiness",
    notes: "Console",
    *,
    saw_others: bool,
    had_profile: bool,
    force: bool,
) -> None:
    """Print by how much runs of the same product differed, and refuse unreliable ones.

    Args:
        steadiness: The runs.
        notes: Where it is printed.
        saw_others: Whether the system's counters show that other programs were at work.
        had_profile: Whether there is an earlier profile.
        force: Whether unreliable runs are accepted in place of it.

    Raises:
        CommandFailed: They differ too much, and there is an earlier profile.
    """
    from wavetrim.service.cli.exits import CommandFailed
    from wavetrim.service.cli.steadiness import MOST_SPREAD

    spreads = steadiness.list_spreads()
    shown = ", ".join(f"{name} {spread:.0%}" for name, spread in spreads.items())
    notes.print(f"runs of the same product, before and after, differ by: {shown}", markup=False)
    most = max(spreads.values())
    if most <= MOST_SPREAD:
        return
    cause = "other programs were at work" if saw_others else "no other program was seen at work"
    told = (
        f"runs differ by {most:.0%}, more than {MOST_SPREAD:.0%}, and {cause}: "
        "predictions may be off by as much"
    )
    if had_profile and not force:
        raise CommandFailed(f"{told}. The old profile is kept; --force stores this one")
    advice = " Calibrate again when the machine is at rest." if saw_others else ""
    notes.print(f"{told}.{advice}", markup=False)


def _print_profile(profile: "MachineProfile", output: "Console") -> None:
    from rich.table import Table

    from wavetrim.service.cli.terminal.units import format_gflops, format_seconds

    output.print(f"{profile.device}, {profile.source}", markup=False)
    cpu = Table("element type", title=f"CPU, {profile.cpu.threads} threads", title_justify="left")
    for name in ("rate", "start-up rows"):
        cpu.add_column(name, justify="right")
    for rate in profile.cpu.rates:
        cpu.add_row(rate.dtype, format_gflops(rate.gflops), f"{rate.startup_rows:.0f}")
    output.print(cpu)
    for link in profile.links:
        output.print(
            f"link, {link.memory} memory: {link.in_gbytes_per_second:.1f} GB/s in, "
            f"{link.out_gbytes_per_second:.1f} GB/s out, "
            f"{format_seconds(link.call_seconds)} a call, {format_seconds(link.step_seconds)} a "
            f"step; {_list_threads(profile, link.memory)} CPU threads beside it"
        )
    measured = [model for model in profile.kernels if not model.assumed]
    if measured:
        kernels = Table("kernel", "tile", "element type", title="kernels", title_justify="left")
        for name in ("slots", "launch", "wave", "wave at K = 1024"):
            kernels.add_column(name, justify="right")
        for model in measured:
            kernels.add_row(
                model.kernel,
                model.tile,
                model.dtype,
                str(model.slots),
                format_seconds(model.launch_seconds),
                format_seconds(model.wave_seconds),
                format_seconds(model.wave_seconds + 1024 * model.wave_k_seconds),
            )
        output.print(kernels)
    if assumed := len(profile.kernels) - len(measured):
        output.print(f"{assumed} slower kernels keep what the data sheet promises of them")


def _list_threads(profile: "MachineProfile", memory: "Memory") -> str:
    return " or ".join(str(share.threads) for share in profile.cpu.list_shares(memory))
