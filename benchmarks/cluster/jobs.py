"""Jobs posted to a service with and without nodes: how fast they are accepted, and done."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from wavetrim.client import Client

SIDES: Final = (64, 200, 500, 1000, 1500)
"""Square products that are mixed, float32."""

JOBS: Final = 200
_POSTERS: Final = 8


class JobLost(Exception):
    """A job did not succeed, or its product is wrong."""


@dataclass(frozen=True, slots=True)
class JobsRow:
    """One run of mixed jobs.

    Attributes:
        nodes: Nodes of the cluster; 0 for a service alone.
        jobs: Number of jobs.
        seconds: From the first post to the last end.
        accepted_per_second: Rate at which the service accepted them.
        by_nodes: Number of jobs that nodes computed.
    """

    nodes: int
    jobs: int
    seconds: float
    accepted_per_second: float
    by_nodes: int


def measure_jobs(client: Client, nodes: int) -> JobsRow:
    """Post mixed jobs at once and wait for all; every tenth product is checked.

    Raises:
        JobLost: A job did not succeed, or its product is wrong.
    """
    rng = np.random.default_rng(1)
    operands = {side: rng.random((side, side), np.float32) for side in SIDES}
    stored = {side: client.put(matrix) for side, matrix in operands.items()}
    sides = [int(side) for side in rng.choice(SIDES, JOBS)]
    client.submit(stored[64], stored[64]).wait()
    start = time.perf_counter()
    with ThreadPoolExecutor(_POSTERS) as pool:
        jobs = list(pool.map(lambda side: client.submit(stored[side], stored[side]), sides))
    accepted = time.perf_counter()
    ended = [job.wait() for job in jobs]
    seconds = time.perf_counter() - start
    for place, (job, side) in enumerate(zip(jobs, sides, strict=True)):
        if place % 10 == 0 and not np.allclose(
            job.result(), operands[side] @ operands[side], rtol=1e-3
        ):
            raise JobLost(f"job {job.id}, {side}², has a wrong product")
    by_nodes = sum(bool((status.plan or {}).get("nodes")) for status in ended)
    return JobsRow(nodes, JOBS, seconds, JOBS / (accepted - start), by_nodes)
