"""Servers of the benchmark, each in a process of its own."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from benchmarks.common.tables import ROOT
from benchmarks.http.clients.connection import Address, connect
from deploy.readiness import find_free_port

START_SECONDS: Final = 120.0
"""Limit for a server to answer. Chosen: loading CUDA takes long."""

_STOP_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.05
_ERROR: Final = re.compile(r"\w*(Error|Exception|Failed)\b.*:")

Started = tuple[Address, Callable[[], None]]
"""Where a server listens, and a function that ends it."""


class ServerAbsent(Exception):
    """A server does not run here; the message says why."""


def start_server(
    log: Path, module: str, *arguments: str, unix: Path | None = None, python: str = sys.executable
) -> Started:
    """Start a module that takes `--port` or `--unix`, and wait until it listens.

    Args:
        log: File of its output.
        module: Run by `python -m`.
        arguments: Its further arguments.
        unix: Path of the Unix socket to listen on; None for a free port of loopback.
        python: The interpreter.

    Raises:
        ServerAbsent: It ended, or does not listen in time.
    """
    port = find_free_port()
    where = ["--unix", str(unix)] if unix else ["--port", str(port)]
    process = ServerProcess(log, module, *arguments, *where, python=python)
    address: Address = str(unix) if unix else ("127.0.0.1", port)
    process.wait_connected(address)
    return address, process.stop


class ServerProcess:
    """A server that was started, in a process group of its own.

    Args:
        log: File of its output.
        module: Run by `python -m`.
        arguments: Its arguments.
        python: The interpreter.
        environment: Variables in place of this process's; None removes one.
    """

    def __init__(
        self,
        log: Path,
        module: str,
        *arguments: str,
        python: str = sys.executable,
        environment: Mapping[str, str | None] | None = None,
    ) -> None:
        changed = {**os.environ, **(environment or {})}
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [python, "-m", module, *arguments],
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

    def wait_connected(self, address: Address) -> None:
        """Wait until it listens; it is ended if it does not.

        Raises:
            ServerAbsent: It ended, or does not listen in time.
        """
        for _ in self._try():
            with contextlib.suppress(OSError):
                connect(address).close()
                return

    def wait_answering(self, port: int, path: str) -> None:
        """Wait until it answers a GET with 200; it is ended if it does not.

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
        until = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            yield
            time.sleep(_PAUSE_SECONDS)
        ended = self._process.poll() is not None
        self.stop()
        why = "does not run here" if ended else f"no answer within {START_SECONDS:g} s"
        raise ServerAbsent(f"{why}: {self._read_reason()}")

    def _read_reason(self) -> str:
        """Its last error, or the last line that it printed."""
        lines = [x.strip() for x in self._log.read_text(errors="replace").splitlines() if x.strip()]
        errors = [line for line in lines if _ERROR.match(line)]
        return (errors or lines or ["it printed nothing"])[-1]

    def stop(self) -> None:
        """Let it end, and kill what is left of its group."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


class SharedServer:
    """A server for several baselines, on a free port of loopback: it is started once.

    Args:
        launch: Starts its process on a port.
        ready_path: Path of the GET that is answered with 200 once it is ready.
    """

    def __init__(self, launch: Callable[[int], ServerProcess], ready_path: str) -> None:
        self._launch, self._ready_path = launch, ready_path
        self._process: ServerProcess | None = None
        self._refusal: str | None = None
        self.port = 0

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> Started:
        """Start it, unless it runs, and return where it listens.

        Raises:
            ServerAbsent: It does not become ready.
        """
        if self._refusal is not None:
            raise ServerAbsent(self._refusal)
        if self._process is None:
            self.port = find_free_port()
            self._process = self._launch(self.port)
            try:
                self._process.wait_answering(self.port, self._ready_path)
            except ServerAbsent as error:
                self._refusal = str(error)
                raise
        return ("127.0.0.1", self.port), self.stop

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.stop()
            self._process = None
