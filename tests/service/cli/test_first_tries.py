"""What a new user tries first and gets wrong, and what the commands say to it."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.command import (
    StartedCommand,
    invoke_command,
    make_environment,
    run_command,
    start_command,
)
from tests.limit import allow
from tests.server import RunningServer, Start
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.cli.commands.machine.calibrate import check_steadiness
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.other_load import CoreTimes, describe_others, read_core_times
from wavetrim.service.cli.steadiness import MOST_SPREAD, Steadiness
from wavetrim.service.cli.terminal.display import show_share


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two matrices, and one file that holds both."""
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.eye(600))
    both = (tmp_path / "a.npy").read_bytes() + (tmp_path / "b.npy").read_bytes()
    (tmp_path / "both.npy").write_bytes(both)
    return tmp_path


def refuse(*arguments: object, folder: Path) -> str:
    """The one line that a command says and ends with."""
    ended = invoke_command(*arguments, folder=folder)
    assert ended.exit_code == ExitCode.REFUSED, ended.stderr
    assert ended.stderr.startswith("wavetrim: ")
    assert ended.stderr.count("\n") == 1
    return str(ended.stderr)


def test_two_files_where_one_is_expected_and_the_reverse(
    folder: Path, shared_server: RunningServer
) -> None:
    said = refuse("multiply", "both.npy", "b.npy", "-o", "c.npy", folder=folder)
    assert "both.npy: length is 5760256; it must be 2880128 bytes, as its header says" in said
    one = invoke_command("multiply", "a.npy", "-o", "c.npy", folder=folder)
    assert (one.exit_code, "Missing argument 'B.npy'" in one.stderr) == (2, True)
    for sent in (["upload", "a.npy", "both.npy"], ["submit", "a.npy", "both.npy"]):
        said = refuse(*sent, "--url", shared_server.url, folder=folder)
        assert "both.npy: length is 5760256; it must be 2880128 bytes" in said


def test_a_missing_key_is_told_with_what_gives_one(folder: Path, start_server: Start) -> None:
    server = start_server(api_key="sixteen-characters")
    said = refuse("status", "--url", server.url, folder=folder)
    assert "--api-key, WAVETRIM_API_KEY or WAVETRIM_API_KEY_FILE gives one" in said


def test_a_port_in_use_is_told_with_what_to_do(folder: Path, shared_server: RunningServer) -> None:
    ended = run_command("serve", "--port", shared_server.port, folder=folder)
    assert ended.returncode == ExitCode.FAILED
    assert ended.stderr == (
        f"wavetrim: cannot listen on 127.0.0.1 port {shared_server.port}: Address already in use; "
        "--port names another one, 0 takes one that is free\n"
    )


@pytest.mark.parametrize(
    ("command", "option"),
    [(["calibrate"], "--profile-dir"), (["probe", "cpu-rows"], "--out")],
)
def test_a_folder_that_cannot_be_written_is_told_before_measuring(
    command: list[str], option: str, folder: Path
) -> None:
    said = refuse(*command, option, "a.npy/below", folder=folder)
    assert said.startswith(f"wavetrim: {option} is '")
    assert "a.npy/below'; it must be a folder that can be written to (Not a directory)" in said


def test_an_output_into_nowhere_is_told_before_anything_is_asked_for(folder: Path) -> None:
    unreachable = ("--url", "http://127.0.0.1:1")
    for command in (
        ["multiply", "a.npy", "b.npy"],
        ["fetch", "0b8d3a6f", *unreachable],
        ["download", "0b8d3a6f", *unreachable],
    ):
        said = refuse(*command, "-o", "nowhere/c.npy", folder=folder)
        assert "--output is 'nowhere/c.npy'; it must be in a folder that exists" in said


def test_a_first_run_that_compiles_says_so(folder: Path) -> None:
    cache = str(folder / "cache")
    command = ("multiply", "a.npy", "b.npy", "-o", "c.npy")
    first = run_command(*command, folder=folder, WAVETRIM_KERNEL_CACHE_DIR=cache)
    again = run_command(*command, folder=folder, WAVETRIM_KERNEL_CACHE_DIR=cache)
    assert (first.returncode, again.returncode) == (0, 0)
    assert first.stderr.startswith(f"compiling the C of cpu into {cache}, once\n")
    assert "compiling" not in again.stderr


@pytest.mark.parametrize("size", [300, 600])
def test_time_to_compile_is_not_that_of_a_product(tmp_path: Path, size: int) -> None:
    profile = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    plan = choose_plan(GemmProblem(size, size, size, "float64"), profile)
    a, c = np.eye(size), np.empty((size, size))
    with Executor(cache_dir=tmp_path, cpu_threads=2) as executor:
        began = time.perf_counter()
        timings = executor.run(plan, a, a, c)
        seconds = time.perf_counter() - began
        assert executor.pool.native
    assert timings.total_seconds < seconds / 2


def interrupt(process: StartedCommand) -> None:
    """Ctrl-C ends it with one line."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=allow(30))
    assert process.returncode == ExitCode.INTERRUPTED, errors
    assert errors.endswith("wavetrim: interrupted\n")
    assert "Traceback" not in output + errors


@pytest.mark.parametrize("command", [["calibrate"], ["probe", "cpu-rows"]])
def test_ctrl_c_ends_what_measures_and_keeps_nothing(command: list[str], folder: Path) -> None:
    option = "--out" if command[0] == "probe" else "--profile-dir"
    with start_command(*command, option, "out", folder=folder) as process:
        began = time.monotonic()
        while not (folder / "out").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() - began < allow(30)
            time.sleep(0.01)
        time.sleep(0.3)
        interrupt(process)
    assert list((folder / "out").iterdir()) == []


def test_ctrl_c_ends_a_command_that_is_still_being_imported(folder: Path) -> None:
    code = """
import importlib.abc, os, signal, sys
class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
from wavetrim.service.cli.start import main
sys.meta_path.insert(0, Interrupts())
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=make_environment(), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (ExitCode.INTERRUPTED, "wavetrim: interrupted\n")


BURN = """
import time
end = time.monotonic() + 60
while time.monotonic() < end:
    pass
"""


def test_runs_of_a_busy_machine_differ_and_the_old_profile_is_kept(kernel_cache: Path) -> None:
    profile = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    busy, notes = Steadiness(), Console(file=io.StringIO(), width=200)
    with Executor(cache_dir=kernel_cache, cpu_threads=2) as executor:
        busy.measure(executor, profile)
        cores = len(os.sched_getaffinity(0))
        burning = [sys.executable, "-I", "-S", "-c", BURN]
        burners = [subprocess.Popen(burning) for _ in range(4 * cores)]
        try:
            at_first = read_core_times()
            time.sleep(1)
            busy.measure(executor, profile)
            told = describe_others(at_first, read_core_times())
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
    assert len(busy.runs["CPU"]) == 6
    assert told is not None
    assert float(told.split()[3]) > cores / 2
    assert busy.list_spreads()["CPU"] > MOST_SPREAD
    with pytest.raises(
        CommandFailed, match=r"and other programs were at work.*old profile is kept"
    ):
        check_steadiness(busy, notes, saw_others=True, had_profile=True, force=False)


@pytest.mark.parametrize("saw_others", [False, True])
def test_other_programs_are_named_only_if_the_counters_show_them(*, saw_others: bool) -> None:
    shown = io.StringIO()
    notes, varied = Console(file=shown, width=200), Steadiness({"CPU": [1.0, 1.28, 1.1]})
    others = "other programs were" if saw_others else "no other program was seen"
    told = f"runs differ by 28%, more than 15%, and {others} at work: predictions may be off"
    with pytest.raises(CommandFailed, match=f"{told} by as much. The old profile is kept"):
        check_steadiness(varied, notes, saw_others=saw_others, had_profile=True, force=False)
    for had_profile in (False, True):
        check_steadiness(varied, notes, saw_others=saw_others, had_profile=had_profile, force=True)
    text = shown.getvalue()
    assert text.count(told) == 2
    assert text.count("when the machine is at rest") == 2 * saw_others


def test_runs_that_hardly_differ_are_told_in_one_line() -> None:
    shown = io.StringIO()
    calm = Steadiness({"CPU": [1.0, 1.1], "GPU": [2.0, 2.02]})
    for saw_others in (False, True):
        check_steadiness(
            calm, Console(file=shown, width=200), saw_others=saw_others, had_profile=True,
            force=False,
        )  # fmt: skip
    line = "runs of the same product, before and after, differ by: CPU 10%, GPU 1%\n"
    assert shown.getvalue() == 2 * line


def test_a_load_that_stays_the_same_is_told_with_its_figure(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    stat, cores = tmp_path / "proc/stat", sorted(os.sched_getaffinity(0))

    def read(busy_seconds: float, idle_seconds: float, own_seconds: float) -> CoreTimes:
        ticks = os.sysconf("SC_CLK_TCK")
        busy, idle = int(busy_seconds * ticks), int(idle_seconds * ticks)
        # user nice system idle iowait irq softirq steal guest, of a core; a foreign core is busier
        lines = [f"cpu{core} {busy} 0 0 {idle} 0 0 0 0 {busy}" for core in cores]
        stat.write_text("\n".join(["cpu 1 1", *lines, f"cpu{max(cores) + 1} 9999 0 0 0 0 0 0 0 0"]))
        times = read_core_times(tmp_path)
        assert times is not None
        return replace(times, at_seconds=busy_seconds + idle_seconds, own_seconds=own_seconds)

    start = read(0, 0, 0)
    count = len(cores)
    calm, loaded = read(10, 10, 9.9 * count), read(15, 5, 10 * count)
    assert calm.count_others(start) == pytest.approx(0.005 * count)
    assert describe_others(start, calm) is None
    assert loaded.count_others(start) == pytest.approx(count / 4)
    assert f"kept {count / 4:.1f} of {count} cores busy" in str(describe_others(start, loaded))
    assert read_core_times(tmp_path / "none") is None
    assert describe_others(None, loaded) is None


def test_a_bar_moves_with_time_and_ends_at_100() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    with show_share(console, "measure", seconds=1.0) as move:
        move(0.0, "CPU")
        time.sleep(0.6)
    shares = [int(share) for share in re.findall(r"(\d+)%", shown.getvalue())]
    assert shares == sorted(shares)
    assert any(10 <= share <= 90 for share in shares)
    assert shares[-1] == 100


def test_the_bar_of_what_was_broken_off_does_not_end_at_100() -> None:
    shown = io.StringIO()

    def measure() -> None:
        console = Console(file=shown, force_terminal=True, width=100)
        with show_share(console, "measure") as move:
            move(0.25)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure()
    assert "25%" in shown.getvalue()
    assert "100%" not in shown.getvalue()
