"""A product over the nodes of a cluster, as jobs of row blocks: what `wavetrim demo --nodes` shows.

A product that is too large for one node is a list of jobs. B is stored once; each job has some rows
of A, and its result has the same rows of C. Each job goes to the machine that should end it first.
One node is killed meanwhile: its jobs are computed elsewhere.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from wavetrim.client import Client
from wavetrim.service.cli.local_cluster import LocalCluster
from wavetrim.service.cli.terminal.display import show_share

_BLOCKS: Final = 16
"""Row blocks; chosen, so that each machine computes several."""


def multiply_by_blocks(
    client: Client,
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    cluster: LocalCluster,
    output: Console,
) -> NDArray[Any]:
    """The product A·B, by a job for each block of rows; a node is killed after the first of them.

    Args:
        client: Of the service whose nodes the cluster has.
        a: A[M,K].
        b: B[K,N].
        cluster: The cluster.
        output: Where it is shown who computed which rows.

    Raises:
        wavetrim.client.ClientError: A job did not succeed.
    """
    stored = client.put(b)
    blocks = np.array_split(a, min(len(a), _BLOCKS))
    jobs = [client.submit(block, stored) for block in blocks]
    parts: list[NDArray[Any]] = []
    start = 0
    with show_share(output, f"{len(jobs)} jobs of row blocks") as move:
        for done, (block, job) in enumerate(zip(blocks, jobs, strict=True), 1):
            parts.append(job.result())
            if done == 1:
                cluster.kill_node()
                output.print("a node was killed while jobs were computed")
            node = (job.status().plan or {}).get("node")
            where = "this machine" if node is None else f"node {node['id'][:12]}"
            output.print(f"rows {start} to {start + len(block)}: {where}")
            start += len(block)
            move(done / len(jobs))
    return np.concatenate(parts)
