"""A cluster of Ray's on this machine: a head without engines, and nodes of one thread each."""

import os
import secrets
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.environment import SHARED_SETTINGS
from tests.processes import list_children

STORE_BYTES = 160 * 2**20

HEALTH_CHECK_MILLISECONDS = 500
"""A node whose process is gone has left after five of these; a slow one has longer to answer."""

ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Ray reads these when it is imported, so all clusters of a process have one token."""


class LocalCluster:
    """Nodes that join and are killed.

    Args:
        profile_dir: Folder of the nodes' calibrations; None for none.

    Attributes:
        address: What `WAVETRIM_RAY_ADDRESS` is to be.
    """

    def __init__(self, profile_dir=None):
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False,
                "include_log_monitor": False, "no_monitor": True,  # processes nobody asks
                "_system_config": {"health_check_period_ms": HEALTH_CHECK_MILLISECONDS},
            },
        )  # fmt: skip
        self.address: str = self._cluster.address
        self.nodes: list[Any] = []
        self._variables = {
            "WAVETRIM_CPU_THREADS": "1",
            "WAVETRIM_KERNEL_CACHE_DIR": str(SHARED_SETTINGS["kernel_cache_dir"]),
        }
        if profile_dir is not None:
            self._variables["WAVETRIM_PROFILE_DIR"] = str(profile_dir)

    def add_node(self):
        """A node joins."""
        node = self._cluster.add_node(
            num_cpus=1, resources={"wavetrim": 1}, object_store_memory=STORE_BYTES,
            env_vars=self._variables,
        )  # fmt: skip
        self.nodes.append(node)
        return node

    def remove_node(self, node):
        """A node is killed, with all that runs on it."""
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def kill_head(self):
        """The head's processes are killed, as when its machine is lost."""
        for processes in self._cluster.head_node.all_processes.values():
            for one in processes:
                os.kill(one.process.pid, signal.SIGKILL)

    def list_engines(self):
        """Process ids of the nodes' engines."""
        return [
            pid
            for node in self.nodes
            for pid in list_children(node.all_processes["raylet"][0].process.pid)
            if _read_title(pid).startswith("ray::NodeEngine")
        ]

    def close(self):
        """End all of it."""
        self._cluster.shutdown()


def _read_title(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@contextmanager
def start_cluster(nodes, *, profile_dir=None):
    """A cluster that is closed at the end; until then its token is in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        cluster = LocalCluster(profile_dir)
        try:
            for _ in range(nodes):
                cluster.add_node()
            yield cluster
        finally:
            cluster.close()
