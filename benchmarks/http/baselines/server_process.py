"""Servers of the benchmark, each in a process of its own."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from benchmarks.http.clients.connection import connect

ROOT: Final = Path(__file__).resolve().parents[3]
START_SECONDS: Final = 120.0
"""So long may a server take until it answers; loading CUDA takes its time."""

_STOP_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.05
_ERROR: Final = re.compile(r"\w*(Error|Exception|Failed)\b.*:")


class ServerAbsent(Exception):
    """A server does not run here; the message says why."""


class ServerProcess:
    """A server that was started, in a process group of its own.

    Args:
        command: Its command line.
        log: Where its output goes.
        environment: Variables over this process's; None takes one away.
    """

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str | None] | None = None
    ) -> None:
        changed = {**os.environ, **(environment or {})}
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                list(command),
                cwd=ROOT,
                env={name: value for name, value in changed.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_connected(self, address: tuple[str, int] | str) -> None:
        """Wait until it listens.

        Raises:
            ServerAbsent: It ended, or does not listen in time.
        """
        for _ in self._try():
            with contextlib.suppress(OSError):
                connect(address).close()
                return

    def wait_answering(self, port: int, path: str) -> None:
        """Wait until it answers a GET with 200.

        Raises:
            ServerAbsent: It ended, or does not answer in time.
        """
        for _ in self._try():
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.suppress(OSError, HTTPException), contextlib.closing(connection):
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return

    def _try(self) -> Iterator[None]:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerAbsent(f"does not run here: {self.read_reason()}")
            yield
            time.sleep(_PAUSE_SECONDS)
        raise ServerAbsent(f"no answer within {START_SECONDS:g} s: {self.read_reason()}")

    def read_reason(self) -> str:
        """Its last error, or the last line that it printed."""
        lines = [x.strip() for x in self._log.read_text(errors="replace").splitlines() if x.strip()]
        errors = [line for line in lines if _ERROR.match(line)]
        return (errors or lines or ["it printed nothing"])[-1]

    def stop(self) -> None:
        """End it in its own way, and what is left of its group by force."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def find_free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def run_module(name: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """The command line of one of our modules."""
    return [python, "-m", name, *arguments]
