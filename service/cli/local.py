"""A service, and a cluster of nodes, for one command: they end with all their processes.

Of the environment's settings only those of the machine count: its devices, threads, calibrations
and compiled kernels.
"""

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wavetrim.client import Client, ServiceUnreachable
from wavetrim.service.cli.exits import CommandFailed
from wavetrim.service.cli.machine import load_settings
from wavetrim.service.machine_settings import MachineSettings

_START_SECONDS: Final = 120.0
"""How long a service or a node may take until it is ready, with loading CUDA; chosen."""

_STOP_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05
_SERVES: Final = re.compile(r"^wavetrim is serving on (http://\S+)$", re.MULTILINE)
_JOINED: Final = re.compile("Ray runtime started")
_STORE_BYTES: Final = 192 * 2**20


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """A head, and nodes of one CPU thread each.

    Attributes:
        address: Address of the head.
        processes: The head, and then the nodes.
    """

    address: str
    processes: "list[_Started]"

    def kill_last(self) -> None:
        """Kill the latest node, with all its processes."""
        self.processes.pop().kill()


@contextlib.contextmanager
def run_cluster(folder: Path, nodes: int) -> Iterator[LocalCluster]:
    """Run a head and some nodes on this machine, and end them whatever happens.

    Their logs and Ray's files are in a folder; its path must be short, as it holds sockets.
    """
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    cluster = LocalCluster(f"127.0.0.1:{port}", [])
    head = ("--head", "--port", port, "--temp-dir", str(folder / "ray"))
    own = {"WAVETRIM_CPU_THREADS": "1", "WAVETRIM_PROFILE_DIR": str(folder / "profiles")}
    try:
        for number, words in enumerate([head, *[("--address", cluster.address)] * nodes]):
            command = ("node", *words, "--store-bytes", str(_STORE_BYTES))
            cluster.processes.append(_Started(f"node-{number}", command, folder, **own))
            cluster.processes[-1].wait_for(_JOINED)  # two that start at once may collide
        yield cluster
    finally:
        while cluster.processes:
            cluster.kill_last()


@contextlib.contextmanager
def run_service(folder: Path, cluster: LocalCluster | None) -> Iterator[Client]:
    """Run a service over an empty folder on a free port, and stop it whatever happens.

    Yields a client of it, once it is ready and has all nodes of the cluster.
    """
    words = ("serve", "--port", "0", "--host", "127.0.0.1", "--data-dir", str(folder / "data"))
    joined = {} if cluster is None else {"WAVETRIM_RAY_ADDRESS": cluster.address}
    nodes = 0 if cluster is None else len(cluster.processes) - 1
    service = _Started("service", words, folder, **joined)
    try:
        with Client(service.wait_for(_SERVES)[1]) as client:
            while not _is_ready(client, nodes):
                service.pause()
            yield client
    finally:
        service.stop()


def _is_ready(client: Client, nodes: int) -> bool:
    try:
        return client.health().ready and len(client.devices()["nodes"]) == nodes
    except ServiceUnreachable:
        return False


class _Started:
    """A command of wavetrim in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(self, name: str, words: Sequence[str], folder: Path, **own: str) -> None:
        environment = _make_environment(folder) | own
        self._log = folder / f"{name}.log"
        self._deadline = time.monotonic() + _START_SECONDS
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "wavetrim", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_for(self, line: re.Pattern[str]) -> re.Match[str]:
        """Wait for a line of its output; raises what `pause` raises."""
        while (found := line.search(self._log.read_text(errors="replace"))) is None:
            self.pause()
        return found

    def pause(self) -> None:
        """Let it do more of its start."""
        if self._process.poll() is not None or time.monotonic() > self._deadline:
            said = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
            raise CommandFailed(f"the {self._log.stem} did not start:\n{said}")
        time.sleep(_PAUSE_SECONDS)

    def stop(self) -> None:
        """Ask it to end, and then kill what is left of its group."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill(self) -> None:
        """Kill it with all processes that it has started, also those outside its group."""
        tree = [self._process.pid]
        for pid in tree:
            with contextlib.suppress(OSError):  # it has ended
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    tree += map(int, (thread / "children").read_text().split())
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


def _make_environment(folder: Path) -> dict[str, str]:
    """The environment, with settings of the machine only."""
    others = {name: it for name, it in os.environ.items() if not name.startswith("WAVETRIM_")}
    settings = load_settings(MachineSettings)
    if not settings.kernel_cache_dir.is_dir():
        settings = settings.model_copy(update={"kernel_cache_dir": folder / "kernels"})
    return others | settings.as_environment()
