"""A cluster whose nodes are asked for products, and compute none."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wavetrim.scheduler.engine.messages import Message
from wavetrim.scheduler.planning.placing import Network
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.engine.cluster import Cluster, ClusterNode
from wavetrim.service.settings import Settings

TIMES_FASTER: Final = 1000.0
"""A node's rate over this machine's, so that products go to a node."""


class SilentCluster(Cluster):
    """A cluster without a process.

    Attributes:
        asked: Ids of the runs that nodes were asked for.
        has_run: Set once there is one.
        hears_end: Whether the runs of a node fail when its engine is to end.
    """

    ready = True

    def __init__(self, folder, *, nodes=1, hears_end=True):
        super().__init__(Settings(data_dir=folder))
        self.asked: list[str] = []
        self.has_run = asyncio.Event()
        self.hears_end = hears_end
        self._takers: dict[str, Callable[[Message], None]] = {}
        for index in range(nodes):
            node_id = f"node {index}"
            self.nodes[node_id] = ClusterNode(
                node_id, "far", [], 1, 2**40, make_profile(), Network(1e-6, 1e15, 1e15), self
            )

    def start_run(self, message, take):
        self.asked.append(message["job"])
        self._takers[message["job"]] = take
        self.has_run.set()

    def send(self, message, files=()):
        if message["type"] == "end" and self.hears_end:
            self.lose_runs(message["reason"])

    def lose_runs(self, reason):
        """All runs fail as those of a lost node do."""
        self._fail_runs("node", reason)

    async def restart(self, reason):
        self.restarts += 1
        self._fail_runs("engine", reason)

    def _fail_runs(self, kind, reason):
        takers, self._takers = self._takers, {}
        failure = {"type": "failed", "kind": kind, "message": reason, "retryable": True}
        for job, take in takers.items():
            take({**failure, "poisoned": False, "job": job})


def make_profile():
    """The profile of a node that is much faster than this machine."""
    profile = find_profile("cpu", devices=(), directory=None, cpu_threads=1)
    cpu = profile.cpu
    faster = replace(
        cpu,
        float32_gflops=TIMES_FASTER * cpu.float32_gflops,
        float64_gflops=TIMES_FASTER * cpu.float64_gflops,
        thread_gflops=TIMES_FASTER * cpu.thread_gflops,
        read_gbytes_per_second=1e6,
        write_gbytes_per_second=1e6,
    )
    return replace(profile, cpu=faster)
