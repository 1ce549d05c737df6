"""When another node pays: asked of the model, with network rates that are stated, not measured."""

from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.placing import Offer, SampledCurve, Traffic, Way, choose_shares
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile

DEVICE: Final = "H200"
CPU_THREADS: Final = 16
NODES: Final = (1, 2, 8, 100)
NETWORKS_GBITS: Final = (10, 100, 400)
_CALL_SECONDS: Final = 1.5e-3
SHAPES: Final = (
    (4096, 4096, 4096),
    (16384, 16384, 16384),
    (65536, 16384, 16384),
    (65536, 65536, 65536),
    (1_000_000, 4096, 4096),
)


@dataclass(frozen=True, slots=True)
class WorthRow:
    """One product and one network.

    Attributes:
        m: Rows.
        n: Columns.
        k: Depth.
        network_gbits: Rate of the head's network each way, Gbit/s, which all nodes share.
        seconds: Predicted, by the number of nodes: as many as pay are used.
        used: Nodes that get rows, by the number of nodes.
    """

    m: int
    n: int
    k: int
    network_gbits: int
    seconds: list[float]
    used: list[int]


def ask_worth(shape: tuple[int, int, int], network_gbits: int) -> WorthRow:
    """The seconds of one product, float32, on a head with a GPU and more and more nodes like it."""
    m, n, k = shape
    profile = find_profile(DEVICE, devices=(), directory=None, cpu_threads=CPU_THREADS)

    def find_seconds(rows: int) -> float:
        problem = GemmProblem(rows, n, k, "float32", "pinned")
        return choose_plan(problem, profile).predicted.total_seconds

    points = {rows: find_seconds(rows) for rows in sorted({m, *(max(1, m // p) for p in _PARTS)})}
    rate = network_gbits * 1e9 / 8
    seconds, used = [], []
    here = SampledCurve(tuple(points.items()))
    traffic = Traffic(b_bytes=4 * k * n, in_row_bytes=4 * k, out_row_bytes=4 * n)
    for nodes in NODES:
        way = Way(_CALL_SECONDS, rate, rate)
        offers = [Offer("here", here)]
        offers += [Offer(f"node {index}", here, way, traffic) for index in range(nodes - 1)]
        shares = choose_shares(range(m), offers, may_spread=True)
        seconds.append(max(share.seconds for share in shares))
        used.append(len(shares))
    return WorthRow(m, n, k, network_gbits, seconds, used)


_PARTS: Final = (200, 64, 16, 8, 4, 2)
"""A product's parts whose plans the curve goes through."""
