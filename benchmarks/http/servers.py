"""The service and its peers, each a process of its own on a port of loopback."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.common.tables import ROOT
from benchmarks.http.client import Address
from deploy.readiness import find_free_port, wait_until_ready

START_SECONDS: Final = 120.0
"""Limit for a server to answer. Chosen: loading CUDA takes long."""

_STOP_SECONDS: Final = 15.0


class Server:
    """A server that was started, and is ready once this is made.

    Args:
        name: Its name; that of its log, too.
        folder: Folder of its log.
        command: What `python -m` runs, and its arguments; the port comes last.
        ready_path: Path of a GET that is answered with 200 once it is ready.
        environment: Variables in addition to this process's.
        checkout: Folder of the code, with its own environment if it has one.

    Attributes:
        address: Where it listens.
        pid: Id of its process.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *command: str,
        ready_path: str,
        environment: dict[str, str] | None = None,
        checkout: Path = ROOT,
    ) -> None:
        self.address: Address = ("127.0.0.1", find_free_port())
        with (folder / f"{name}.log").open("wb") as output:
            self._process = subprocess.Popen(
                [find_python(checkout), "-m", *command, "--port", str(self.address[1])],
                cwd=checkout,
                env=os.environ | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid
        try:
            wait_until_ready(
                f"http://127.0.0.1:{self.address[1]}",
                path=ready_path,
                is_running=lambda: self._process.poll() is None,
                timeout_seconds=START_SECONDS,
            )
        except SystemExit as error:
            self.stop()
            log = (folder / f"{name}.log").read_text(errors="replace").strip()
            raise SystemExit(f"{name} does not run here: {error}\n{log[-1000:]}") from None

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


def find_python(checkout: Path) -> str:
    """The interpreter of a checkout's environment; this one's for this checkout, or without."""
    python = checkout / ".venv" / "bin" / "python"
    return str(python) if checkout != ROOT and python.exists() else sys.executable


def start_service(folder: Path, checkout: Path = ROOT) -> tuple[Server, Path]:
    """The service of a checkout, with its default settings, and its Unix socket."""
    unix = folder / "wavetrim.sock"
    command = ("serve", "--host", "127.0.0.1", "--data-dir", str(folder / "data"))
    os.environ.pop("WAVETRIM_API_KEY", None)
    os.environ.pop("WAVETRIM_DATABASE_URL", None)
    return Server(
        *("wavetrim", folder, "wavetrim", *command),
        ready_path="/healthz/ready",
        environment={"WAVETRIM_UNIX_SOCKET": str(unix)},
        checkout=checkout,
    ), unix


def start_peer(name: str, folder: Path) -> Server:
    """The FastAPI application of a peer, "numpy" or "cupy"."""
    application = f"benchmarks.http.peers.{name}_app:app"
    quiet = ("--no-access-log", "--log-level", "warning")
    return Server(name, folder, "uvicorn", application, *quiet, ready_path="/openapi.json")
