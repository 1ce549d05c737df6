"""The service and its peers, each a process of its own on a port of loopback."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from benchmarks.common.tables import ROOT
from benchmarks.http.client import Address
from deploy.readiness import find_free_port

START_SECONDS: Final = 120.0
"""Limit for a server to answer. Chosen: loading CUDA takes long."""

_STOP_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.05


class ServerAbsent(Exception):
    """A server does not run here; the message says why."""


class Server:
    """A server that was started, and is ready once this is made.

    Args:
        name: Its name; that of its log, too.
        folder: Folder of its log.
        command: What `python -m` runs, and its arguments; the port comes last.
        ready_path: Path of a GET that is answered with 200 once it is ready.
        environment: Variables in addition to this process's.

    Attributes:
        address: Where it listens.

    Raises:
        ServerAbsent: It ended, or did not become ready in time.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *command: str,
        ready_path: str,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.address: Address = ("127.0.0.1", find_free_port())
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command, "--port", str(self.address[1])],
                cwd=ROOT,
                env=os.environ | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if not self._becomes_ready(ready_path):
            self.stop()
            lines = self._log.read_text(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
            raise ServerAbsent(f"{name} does not run here: {last}")

    def _becomes_ready(self, path: str) -> bool:
        until = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            connection = HTTPConnection(*self.address, timeout=10)
            with contextlib.suppress(OSError, HTTPException), contextlib.closing(connection):
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return True
            time.sleep(_PAUSE_SECONDS)
        return False

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


def start_service(folder: Path) -> tuple[Server, Path]:
    """The service as it is without settings, and its Unix socket."""
    unix = folder / "wavetrim.sock"
    command = ("serve", "--host", "127.0.0.1", "--data-dir", str(folder / "data"))
    os.environ.pop("WAVETRIM_API_KEY", None)
    os.environ.pop("WAVETRIM_DATABASE_URL", None)
    return Server(
        *("wavetrim", folder, "wavetrim", *command),
        ready_path="/healthz/ready",
        environment={"WAVETRIM_UNIX_SOCKET": str(unix)},
    ), unix


def start_peer(name: str, folder: Path) -> Server:
    """The FastAPI application of a peer, "numpy" or "cupy"."""
    application = f"benchmarks.http.peers.{name}_app:app"
    quiet = ("--no-access-log", "--log-level", "warning")
    return Server(name, folder, "uvicorn", application, *quiet, ready_path="/openapi.json")
