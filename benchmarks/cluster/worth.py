"""When another node pays, by the model; the rates of networks are assumed, not measured."""

from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.placing import Network, Offer, SampledCurve, Traffic, choose_shares
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.jobs.lanes.cluster_lanes import NODE_RUNS

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
STREAM_SIDES: Final = (4096, 8192, 16384)
"""M = N = K of the jobs of a stream."""

_PARTS: Final = (200, 64, 16, 8, 4, 2)
"""Parts of a product that are planned, as points of its curve."""


@dataclass(frozen=True, slots=True)
class WorthRow:
    """One product and one network.

    Attributes:
        m: Rows.
        n: Columns.
        k: Depth.
        network_gbits: Rate of the head's network each way, Gbit/s, which all nodes share.
        seconds: Predicted seconds by the number of nodes in `NODES`; those that pay are used.
        used: Number of engines that get rows, likewise.
    """

    m: int
    n: int
    k: int
    network_gbits: int
    seconds: list[float]
    used: list[int]


def ask_worth(shape: tuple[int, int, int], network_gbits: int) -> WorthRow:
    """The seconds of one float32 product on a head with a GPU and 0 to 99 nodes like it."""
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
        network = Network(_CALL_SECONDS, rate, rate)
        offers = [Offer("here", here)]
        offers += [Offer(f"node {index}", here, network, traffic) for index in range(nodes - 1)]
        shares = choose_shares(range(m), offers, may_spread=True)
        seconds.append(max(share.seconds for share in shares))
        used.append(len(shares))
    return WorthRow(m, n, k, network_gbits, seconds, used)


@dataclass(frozen=True, slots=True)
class StreamRow:
    """Equal jobs without end, and one network.

    Attributes:
        side: M = N = K.
        b_stays: Whether all have one B, which the nodes keep.
        network_gbits: As in a `WorthRow`.
        jobs_per_second: Predicted, by the number of nodes.
    """

    side: int
    b_stays: bool
    network_gbits: int
    jobs_per_second: list[float]


def ask_stream(side: int, network_gbits: int, *, b_stays: bool) -> StreamRow:
    """The float32 jobs a second of a head with a GPU and 0 to 99 nodes like it.

    A node computes one job while the operands of another travel. All nodes share the network.
    """
    profile = find_profile(DEVICE, devices=(), directory=None, cpu_threads=CPU_THREADS)
    problem = GemmProblem(side, side, side, "float32", "pinned")
    here_seconds = choose_plan(problem, profile).predicted.total_seconds
    rate = network_gbits * 1e9 / 8
    row_bytes = 4 * side
    b_bytes = 0 if b_stays else side * row_bytes
    here = SampledCurve(((side, here_seconds),))
    network = Network(_CALL_SECONDS, rate, rate)
    node = Offer("node", here, network, Traffic(b_bytes, row_bytes, row_bytes))
    node_rate = min(NODE_RUNS / node.find_end(side), 1 / here_seconds)
    network_rate = rate / (b_bytes + side * row_bytes)
    jobs = [1 / here_seconds + min((count - 1) * node_rate, network_rate) for count in NODES]
    return StreamRow(side, b_stays, network_gbits, jobs)
