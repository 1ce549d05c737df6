"""The executor in a process of its own: it multiplies arrays in memory when it is told to.

`python -m benchmarks.http.baselines.executor_process FOLDER [--profile FILE]` makes sure that
FOLDER/profiles has this machine's profile, and then answers JSON lines: {"m", "n", "k", "dtype"}
draws operands, in page-locked memory with {"memory": "pinned"}, and computes their product once, {}
computes it again. Between two lines it sleeps.
"""

import argparse
import contextlib
import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.common.operands import Operands, draw_operands, pin_operands
from benchmarks.common.profile import make_profile
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.planning.plan import choose_plan
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile, read_key, store_profile
from wavetrim.service.cli.machine import count_threads, find_devices, load_settings

PROFILES: Final = "profiles"
"""Folder of the profile, in that of the benchmark."""

KERNELS: Final = "kernels"
"""Folder of compiled kernels, likewise."""


class ExecutorFailed(Exception):
    """The process has ended."""


class ExecutorProcess:
    """The process as the benchmark sees it; a context manager.

    Args:
        folder: For the profile and the compiled kernels.
        profile: A file with the profile to use; without it, the machine is calibrated.

    Attributes:
        profile: The profile in use, ready for JSON.

    Raises:
        ExecutorFailed: It did not start.
    """

    def __init__(self, folder: Path, profile: Path | None) -> None:
        given = [] if profile is None else ["--profile", str(profile)]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.http.baselines.executor_process",
                str(folder),
                *given,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.profile: dict[str, Any] = self._hear()
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def run(self, **product: Any) -> dict[str, float]:
        """Compute a new product of `m`, `n`, `k` and `dtype`, or without them the last one again.

        Returns:
            The executor's timings.

        Raises:
            ExecutorFailed: It has ended.
        """
        assert self._process.stdin is not None, "it was opened as a pipe"
        try:
            print(json.dumps(product), file=self._process.stdin, flush=True)
        except OSError as error:
            raise ExecutorFailed(f"the executor's process has ended: {error}") from error
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "it was opened as a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise ExecutorFailed("the executor's process has ended; its message is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        with self._process as process:
            process.kill()


def main() -> int:
    """Find the profile, then compute what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    settings = load_settings()
    devices, threads = find_devices(settings), count_threads(settings)
    cache_dir, directory = arguments.folder / KERNELS, arguments.folder / PROFILES
    cache_dir.mkdir(parents=True, exist_ok=True)
    with Executor(cache_dir=cache_dir, devices=devices, cpu_threads=threads) as executor:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # the answers go by standard output
                profile = make_profile(executor, cache_dir, arguments.profile)
        except (ProfileError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        key = read_key(devices[0] if devices else None, threads)
        # A service takes a stored profile for measured, and for this machine's by its key.
        measured_at = profile.measured_at or datetime.now(UTC).isoformat(timespec="seconds")
        store_profile(replace(profile, key=key, measured_at=measured_at), directory)
        profile = find_profile(None, devices=devices, directory=directory, cpu_threads=threads)
        answer(profile.as_dict())
        serve(executor, profile)
    return 0


def serve(executor: Executor, profile: MachineProfile) -> None:
    """Compute a product for every line of standard input."""
    operands: Operands | None = None
    for line in sys.stdin:
        if product := json.loads(line):
            shape = product["m"], product["n"], product["k"]
            operands = draw_operands(shape, product["dtype"])
            if product.get("memory") == "pinned":
                operands = pin_operands(operands)
        assert operands is not None, "the first line names a product"
        plan = choose_plan(operands.problem, profile)
        answer(executor.run(plan, operands.a, operands.b, operands.c).as_dict())


def answer(document: dict[str, Any]) -> None:
    """Send a line."""
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    sys.exit(main())
