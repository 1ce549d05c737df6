"""The cost of Ray: a product through a node, and through this machine's engine, in turns."""

import time
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from benchmarks.cluster.engines import Engines, compute
from benchmarks.common.turns import find_spread, take_turns
from wavetrim.scheduler.engine.messages import RunRequest

SIZES: Final = {64: 200, 1024: 20, 4096: 5}
"""Sides of square products, and the number of runs of each."""

_GFLOPS: Final = 50.0
"""Expected rate, for the deadline only; chosen."""


class WrongProduct(Exception):
    """An engine's product is not NumPy's."""


@dataclass(frozen=True, slots=True)
class OverheadRow:
    """Medians of one size.

    Attributes:
        size: M = N = K, float32.
        here_seconds: Through this machine's engine.
        node_seconds: Through a node of the same machine, one thread each.
        here_spread: Slowest minus fastest, over the median.
        node_spread: The same through the node.
        runs: Products through each.
    """

    size: int
    here_seconds: float
    node_seconds: float
    here_spread: float
    node_spread: float
    runs: int


async def measure_overhead(engines: Engines, size: int, runs: int) -> OverheadRow:
    """Measure one size.

    Raises:
        WrongProduct: A product is not NumPy's.
    """
    rng = np.random.default_rng(size)
    a, b = (rng.random((size, size), np.float32) for _ in range(2))
    memory = engines.memory
    memory.empty()
    out = memory.place(np.zeros_like(a))
    request = RunRequest("", memory.place(a), memory.place(b), None, out, reports=False)
    expected, found = a @ b, memory.read(out)
    sides = {"here": engines.here, "node": engines.nodes[0]}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn, name in take_turns(sides, runs + 1):
        found[...] = np.nan
        start = time.perf_counter()
        event = await compute(
            sides[name], request, f"{size}-{turn}-{name}", 2 * size**3 / _GFLOPS / 1e9
        )
        if turn:  # the first one warms up
            seconds[name].append(time.perf_counter() - start)
        if event["type"] != "succeeded" or not np.allclose(found, expected, rtol=1e-3):
            raise WrongProduct(f"{size}² through {name}: {event}")
    here, node = median(seconds["here"]), median(seconds["node"])
    return OverheadRow(
        size, here, node, find_spread(seconds["here"], here), find_spread(seconds["node"], node),
        runs,
    )  # fmt: skip
