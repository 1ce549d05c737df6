"""Processes: fresh interpreters, a process's children, whether it has ended, and waiting."""

import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.environment import ROOT, SHARED_SETTINGS, clear_environment
from tests.limit import allow


def execute(command, **how):
    """Run a command until it ends, in whatever way; its output is text."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def run_python(program, *arguments, folder=ROOT, **variables):
    """Run a program in a fresh interpreter, in which warnings are errors.

    It finds C that was compiled before, and none of wavetrim's settings but those in `variables`.
    """
    cache = str(SHARED_SETTINGS["kernel_cache_dir"])
    environment = {**clear_environment(), "WAVETRIM_KERNEL_CACHE_DIR": cache, **variables}
    command = [sys.executable, "-W", "error", "-c", program, *map(str, arguments)]
    return execute(command, cwd=folder, env=environment, timeout=allow(60))


def expect_output(program, *arguments, prints, **how):
    """Assert that a program in a fresh interpreter ends well, and prints this and nothing else."""
    ended = run_python(program, *arguments, **how)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, prints, "")


def compile_c(target, *arguments):
    """Call the C compiler."""
    command = ["cc", *arguments, "-o", target]
    done = execute(command)
    assert done.returncode == 0, done.stderr


def run_benchmark(name, out, *arguments, **variables):
    """Run a benchmark, whose results go into a folder; returns what it printed."""
    cache = {"WAVETRIM_KERNEL_CACHE_DIR": str(out / "kernels")}
    environment = {**clear_environment(), **cache, **variables}
    command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(out), *arguments]
    ran = execute(command, cwd=ROOT, env=environment, timeout=allow(300))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextmanager
def running(command, log, answers):
    """Run a program until the block ends, which begins once `answers()` is true."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def is_there():
        assert process.poll() is None, log.read_text()
        with suppress(OSError):
            return answers()

    try:
        wait_until(is_there)
        yield
    finally:
        process.terminate()
        process.wait(20)


def list_children(pid):
    """A process's children that still exist."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def list_family(pid):
    """A process and its descendants."""
    return [pid, *(one for child in list_children(pid) for one in list_family(child))]


def is_gone(pid):
    """Whether a process has ended, reaped or not."""
    try:
        status = (Path("/proc") / str(pid) / "stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def wait_until(condition, seconds=20):
    """Wait until a condition is true, and return what it found; a busy machine has more time."""
    began = time.monotonic()
    while not (found := condition()):
        limit, waited = allow(seconds), time.monotonic() - began
        assert waited < limit, f"it did not happen within {limit}"
        # To answer for its metrics takes a service 10 ms, so pauses grow.
        time.sleep(min(0.01 + waited / 10, 0.25))
    return found
