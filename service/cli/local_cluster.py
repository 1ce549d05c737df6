"""A cluster for one command: a head and nodes on this machine, ended with all their processes."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wavetrim.client import Client
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.machine import load_machine_settings

_START_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.2
_STARTED: Final = "Ray runtime started"
_STORE_BYTES: Final = 192 * 2**20


class LocalCluster:
    """A head and nodes of one CPU thread each.

    Args:
        folder: For their logs and Ray's files; its path must be short, as it holds sockets.

    Attributes:
        address: Address of the head.
    """

    def __init__(self, folder: Path) -> None:
        port = _find_free_port()
        self.address = f"127.0.0.1:{port}"
        self._folder = folder
        self._nodes: list[subprocess.Popen[bytes]] = []
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        self._start("--head", "--port", str(port), "--temp-dir", str(folder / "ray"))

    def add_node(self) -> None:
        """Start a node that joins the cluster."""
        self._start("--address", self.address)

    def kill_node(self) -> None:
        """Kill the latest node, with all its processes."""
        _kill_tree(self._nodes.pop())

    def close(self) -> None:
        """Kill all nodes, the head last."""
        while self._nodes:
            _kill_tree(self._nodes.pop())

    def _start(self, *arguments: str) -> None:
        log = self._folder / f"node-{len(self._nodes)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603
                [
                    sys.executable, "-m", "wavetrim", "node", *arguments,
                    "--store-bytes", str(_STORE_BYTES),
                ],
                env={**os.environ, **self._list_settings()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )  # fmt: skip
        self._nodes.append(process)
        self._wait_for_start(log)

    def _list_settings(self) -> dict[str, str]:
        """A node's settings: it writes only into the folder, but reads compiled kernels."""
        compiled = load_machine_settings().kernel_cache_dir
        kernels = compiled if compiled.is_dir() else self._folder / "kernels"
        return {
            "WAVETRIM_CPU_THREADS": "1",
            "WAVETRIM_KERNEL_CACHE_DIR": str(kernels),
            "WAVETRIM_PROFILE_DIR": str(self._folder / "profiles"),
        }

    def _wait_for_start(self, log: Path) -> None:
        """Wait until Ray has started: two nodes that start on one machine at once may collide."""
        deadline = time.monotonic() + _START_SECONDS
        while _STARTED not in (said := log.read_text(errors="replace")):
            if self._nodes[-1].poll() is not None or time.monotonic() > deadline:
                self.close()
                raise CommandFailed(f"a node did not start:\n{said}", ExitCode.FAILED)
            time.sleep(_PAUSE_SECONDS)


@contextlib.contextmanager
def run_cluster(folder: Path, nodes: int) -> Iterator[LocalCluster]:
    """Run a head and nodes on this machine, and end them whatever happens.

    Args:
        folder: For their logs and Ray's files.
        nodes: How many.

    Raises:
        CommandFailed: One of them does not start.
    """
    cluster = LocalCluster(folder)
    try:
        for _ in range(nodes):
            cluster.add_node()
        yield cluster
    finally:
        cluster.close()


def wait_for_nodes(client: Client, count: int) -> None:
    """Wait until a service has that many nodes.

    Raises:
        CommandFailed: They do not come.
    """
    deadline = time.monotonic() + _START_SECONDS
    while (found := len(client.devices()["nodes"])) != count:
        if time.monotonic() > deadline:
            raise CommandFailed(f"the service has {found} of {count} nodes", ExitCode.FAILED)
        time.sleep(_PAUSE_SECONDS)


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all processes that it has started."""
    tree = _list_tree(process.pid)
    for pid in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _list_tree(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                status = (folder / "stat").read_text()
                parents[int(folder.name)] = int(status.rpartition(")")[2].split()[1])
    tree = [root]
    for pid in tree:
        tree += [child for child, parent in parents.items() if parent == pid]
    return tree


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
