"""A service, and a cluster of nodes, for one command: they end with all their processes."""

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from wavetrim.client import Client, ServiceUnreachable
from wavetrim.service.cli.exits import CommandFailed
from wavetrim.service.machine_settings import MachineSettings

_START_SECONDS: Final = 120.0
"""How long a service or a node may take until it is ready, with loading CUDA; chosen."""

_STOP_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05
_SERVES: Final = re.compile(r"^wavetrim is serving on (http://\S+)$", re.MULTILINE)
_JOINED: Final = re.compile("Ray runtime started")
_STORE_BYTES: Final = 192 * 2**20
_KEPT: Final = ("WAVETRIM_DEVICES", "WAVETRIM_CPU_THREADS", "WAVETRIM_GPU_MEMORY_BYTES")

_Found = TypeVar("_Found")


@contextlib.contextmanager
def run_service(
    folder: Path, settings: MachineSettings, cluster: "LocalCluster | None" = None
) -> Iterator[Client]:
    """Run a service over an empty folder on a free port, and stop it whatever happens.

    Of the environment's settings only those of the machine count: its devices, threads,
    calibrations and compiled kernels.

    Args:
        folder: For data and log.
        settings: The environment's settings.
        cluster: A cluster whose nodes compute, too.

    Yields:
        A client of the service, once that is ready and has all nodes.

    Raises:
        CommandFailed: The service does not become ready; the message ends with its log.
    """
    words = ("serve", "--port", "0", "--host", "127.0.0.1", "--data-dir", str(folder / "data"))
    log = folder / "service.log"
    joined = {} if cluster is None else {"WAVETRIM_RAY_ADDRESS": cluster.address}
    nodes = 0 if cluster is None else len(cluster.processes) - 1
    process = _start(words, log, _make_environment(settings, folder, **joined))
    try:
        address = _wait(lambda: _SERVES.search(log.read_text()), process, log)[1]
        with Client(address) as client:
            _wait(lambda: _is_ready(client, nodes) or None, process, log)
            yield client
    finally:
        _stop(process)


@dataclass(slots=True)
class LocalCluster:
    """A head, and nodes of one CPU thread each.

    Attributes:
        address: Address of the head.
        folder: For their logs and Ray's files; its path must be short, as it holds sockets.
        settings: The environment's settings.
        processes: The head, and then the nodes.
    """

    address: str
    folder: Path
    settings: MachineSettings
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add(self, *arguments: str) -> None:
        """Start the head or a node, and wait for it: two that start at once may collide."""
        own = {"WAVETRIM_CPU_THREADS": "1", "WAVETRIM_PROFILE_DIR": str(self.folder / "profiles")}
        log = self.folder / f"node-{len(self.processes)}.log"
        words = ("node", *arguments, "--store-bytes", str(_STORE_BYTES))
        environment = _make_environment(self.settings, self.folder, **own)
        self.processes.append(_start(words, log, environment))
        _wait(lambda: _JOINED.search(log.read_text(errors="replace")), self.processes[-1], log)

    def kill_last(self) -> None:
        """Kill the latest node, with all its processes."""
        process = self.processes.pop()
        for pid in _list_tree(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def run_cluster(folder: Path, settings: MachineSettings, nodes: int) -> Iterator[LocalCluster]:
    """Run a head and nodes on this machine, and end them whatever happens.

    Args:
        folder: For their logs and Ray's files.
        settings: The environment's settings.
        nodes: How many.

    Raises:
        CommandFailed: One of them does not start.
    """
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    cluster = LocalCluster(f"127.0.0.1:{port}", folder, settings)
    try:
        cluster.add("--head", "--port", port, "--temp-dir", str(folder / "ray"))
        for _ in range(nodes):
            cluster.add("--address", cluster.address)
        yield cluster
    finally:
        while cluster.processes:
            cluster.kill_last()


def _start(
    words: tuple[str, ...], log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command of wavetrim in a session of its own, so that Ctrl-C does not reach it."""
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "wavetrim", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _wait(look: Callable[[], _Found | None], process: subprocess.Popen[bytes], log: Path) -> _Found:
    """What `look` finds, once it finds anything.

    Raises:
        CommandFailed: The process ends, or takes too long; the message ends with its log.
    """
    deadline = time.monotonic() + _START_SECONDS
    while (found := look()) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            said = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            raise CommandFailed(f"the {log.stem} did not start:\n{said}")
        time.sleep(_PAUSE_SECONDS)
    return found


def _is_ready(client: Client, nodes: int) -> bool:
    try:
        return client.health().ready and len(client.devices()["nodes"]) == nodes
    except ServiceUnreachable:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a service to end, and then kill what is left of its group."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _make_environment(settings: MachineSettings, folder: Path, **own: str) -> dict[str, str]:
    """The environment; of its settings only the machine's, and what a process has of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or not name.startswith("WAVETRIM_")
    }
    compiled = settings.kernel_cache_dir
    kernels = compiled if compiled.is_dir() else folder / "kernels"
    folders = {"KERNEL_CACHE_DIR": kernels, "PROFILE_DIR": settings.profile_dir}
    return kept | {f"WAVETRIM_{name}": str(path) for name, path in folders.items()} | own


def _list_tree(root: int) -> list[int]:
    """A process and all processes that it has started, by their ids."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (folder / "stat").read_text()
            parents[int(folder.name)] = int(status.rpartition(")")[2].split()[1])
    tree = [root]
    for pid in tree:
        tree += [child for child, parent in parents.items() if parent == pid]
    return tree
