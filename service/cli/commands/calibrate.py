"""`wavetrim calibrate`: measure this machine, and by how much the same work differs meanwhile."""

import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from wavetrim.scheduler.calibration.calibrate import calibrate_gpus
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import store_profile
from wavetrim.service.cli import display
from wavetrim.service.cli.exits import CommandFailed
from wavetrim.service.cli.machine import check_folder, find_machine

_MOST_SPREAD: Final = 0.15
"""Largest spread of runs at which a machine's times are reliable; chosen."""

_SIDE: Final = 1024
_RUNS: Final = 3
_PRODUCTS: Final = 7
"""Products of a run, which is their median, so that an interrupted one does not count; chosen."""

Runs = dict[str, list[float]]
"""Seconds of each run of a product, by device."""


def calibrate(*, profile_dir: Path | None = None, force: bool = False) -> None:
    """Measure this machine's CPU, links and kernels, and store them.

    It takes about 10 s for each model of GPU, and some seconds for each further GPU.

    What was measured is the profile that later plans use; a running service uses it from its next
    job on. It is for this GPU, driver, libraries and number of threads. The same product is timed
    before and after: if its runs differ by more than 15%, predictions may be off by as much, and an
    existing profile is kept.

    Options:
        force: Store the profile even if runs differ by more than 15%.

    Example:
        wavetrim calibrate
    """
    here = find_machine(profile_dir=profile_dir)
    settings = here.settings
    check_folder("--profile-dir", settings.profile_dir)
    open_executor = partial(here.open_executor, settings.kernel_cache_dir)
    executor, before = open_executor(), here.find_profile()
    notes = display.open_notes()
    runs: Runs = {}
    with executor, display.announce_compiling(notes), display.show_share(notes, "measure") as move:
        _time_product(executor, before, runs)
        measured = calibrate_gpus(
            open_executor,
            executor.devices,
            cache_dir=settings.kernel_cache_dir,
            report=lambda what, share: move(min(share, 0.95), what),
        )
        _time_product(executor, measured, runs)
    output = display.open_output()
    for profile in measured.gpus or (measured,):
        _print_profile(profile, output)
    _check_steadiness(runs, notes, had_profile=before.measured_at is not None, force=force)
    for profile in measured.gpus or (measured,):
        path = store_profile(replace(profile, beside=()), settings.profile_dir)
        output.print(f"stored in {path}", markup=False, soft_wrap=True)
    if (joint := measured.joint) is not None:
        output.print(
            f"{len(measured.gpus)} GPUs together: {joint.in_gbytes_per_second:.1f} GB/s in, "
            f"{joint.out_gbytes_per_second:.1f} out, {joint.both_gbytes_per_second:.1f} both ways"
        )
        if joint.peer_gbytes_per_second:
            output.print(f"GPU to GPU: {joint.peer_gbytes_per_second:.1f} GB/s each way")


def _time_product(executor: Executor, profile: MachineProfile, runs: Runs) -> None:
    """Add some runs of a product on the CPU and, if there is one, the GPU."""
    problem = GemmProblem(_SIDE, _SIDE, _SIDE)
    a = np.ones((_SIDE, _SIDE), np.float32)
    c = np.empty_like(a)
    rows = {"CPU": _SIDE, **({"GPU": 0} if executor.devices else {})}
    for name, f in rows.items():
        plan = choose_plan(problem, profile, PlanOptions(f=f))
        executor.run(plan, a, a, c)  # warms up
        for _ in range(_RUNS):
            seconds = [executor.run(plan, a, a, c).total_seconds for _ in range(_PRODUCTS)]
            runs.setdefault(name, []).append(statistics.median(seconds))


def _check_steadiness(runs: Runs, notes: Console, *, had_profile: bool, force: bool) -> None:
    """Print by how much runs of the same product differed.

    Refuses unreliable ones in place of an earlier profile, unless that is forced.
    """
    spreads = {name: max(seconds) / min(seconds) - 1 for name, seconds in runs.items()}
    shown = ", ".join(f"{name} {spread:.0%}" for name, spread in spreads.items())
    notes.print(f"runs of the same product, before and after, differ by: {shown}", markup=False)
    most = max(spreads.values())
    if most <= _MOST_SPREAD:
        return
    differ = f"runs differ by {most:.0%}, more than {_MOST_SPREAD:.0%}"
    told = f"{differ}: predictions may be off by as much"
    if had_profile and not force:
        raise CommandFailed(f"{told}. The old profile is kept; --force stores this one")
    notes.print(f"{told}. Calibrate again when the machine is at rest.", markup=False)


def _print_profile(profile: MachineProfile, output: Console) -> None:
    output.print(f"{profile.device}, {profile.source}", markup=False)
    cpu = profile.cpu
    output.print(
        f"CPU, {cpu.threads} threads: float32 {display.format_gflops(cpu.float32_gflops)}, "
        f"float64 {display.format_gflops(cpu.float64_gflops)}, "
        f"one thread {display.format_gflops(cpu.thread_gflops)}, "
        f"{display.format_seconds(cpu.start_seconds)} a start"
    )
    output.print(
        f"memory: {cpu.read_gbytes_per_second:.1f} GB/s read, "
        f"{cpu.write_gbytes_per_second:.1f} GB/s written"
    )
    for link in profile.links:
        output.print(
            f"link, {link.memory} memory: {link.in_gbytes_per_second:.1f} GB/s in, "
            f"{link.out_gbytes_per_second:.1f} GB/s out, both at once {link.duplex:.2f} times as "
            f"long, {display.format_seconds(link.call_seconds)} a call"
        )
    if profile.kernels:
        kernels = Table("kernel", "tile", "element type", title="kernels", title_justify="left")
        kernels.add_column("rate", justify="right")
        for rate in profile.kernels:
            kernels.add_row(rate.kernel, rate.tile, rate.dtype, display.format_gflops(rate.gflops))
        output.print(kernels)
