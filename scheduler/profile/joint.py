"""What several GPUs of a host reach together: the links' joint rates.

Each GPU has a link of its own, but all links end at one host memory.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.problem import Memory

JOINT_SHARE: Final = 0.96
"""Joint rate of page-locked copies one way, as a share of the sum of the links' rates: 106 of 110
GB/s on two H100s of one host."""

JOINT_DUPLEX_SHARE: Final = 0.73
"""The same for copies both ways: 135 of 186 GB/s there."""

SOCKET_GPUS: Final = 4
SOCKET_OUT_GBYTES_PER_SECOND: Final = 150.0
SOCKET_BOTH_GBYTES_PER_SECOND: Final = 180.0
"""GPUs of one socket, as hosts of eight have them, and what its memory takes of copies out and both
ways: 150 and 185 with three H200s, 149 and 179 with four (64 cores; 6cc898a). Copies in reached 196
there. On other hosts of four they are 147 to 175 both ways (3fe77d6 to 95e7e6f9)."""

PART_SECONDS: Final = 1.3e-5
"""`JointLinks.call_seconds` for each further GPU, where it is not measured: the median of 5 to 28
µs with two to four H200s of two hosts (64 cores; f0d76cff). On a third one 87 to 132 (95e7e6f9)."""


@dataclass(frozen=True, slots=True)
class JointLinks:
    """The links of several GPUs while all of them copy, and what a product on all of them costs.

    Attributes:
        memory: The kind of host memory.
        gpus: Number of GPUs.
        in_gbytes_per_second: Rate to all of them together, 1e9 bytes a second.
        out_gbytes_per_second: Rate from all of them together.
        both_gbytes_per_second: Rate of both ways together while both are busy.
        source: Where the figures come from.
        split_stretch: Factor on the GPUs' copies, and on the CPU part's time for memory, in a split
            over those beside one GPU: all of them share the host's memory.
        call_seconds: Time of a product beyond its curve and a call of one GPU: the host enqueues
            for all, and they wait for each other. None if it is not measured.
    """

    memory: Memory
    gpus: int
    in_gbytes_per_second: float
    out_gbytes_per_second: float
    both_gbytes_per_second: float
    source: str
    split_stretch: float = 1.0
    call_seconds: float | None = None

    @property
    def further_seconds(self) -> float:
        """`call_seconds`, or what is assumed."""
        assumed = (self.gpus - 1) * PART_SECONDS
        return assumed if self.call_seconds is None else self.call_seconds


@dataclass(frozen=True, slots=True)
class LinkRates:
    """One link: bytes a second each way alone, and `duplex`, the factor on the time of both."""

    in_bytes_per_second: float
    out_bytes_per_second: float
    duplex: float

    @property
    def both_bytes_per_second(self) -> float:
        """Rate of both ways together while both are busy."""
        return (self.in_bytes_per_second + self.out_bytes_per_second) / self.duplex


def estimate_joint_links(memory: Memory, links: Sequence[LinkRates]) -> JointLinks:
    """The joint rates of links that were not measured together.

    Staged copies of several GPUs share the CPU's threads, so together they are assumed to be as
    fast as those of one.
    """
    one_way, both_ways = JOINT_SHARE, JOINT_DUPLEX_SHARE
    if memory == "pageable":
        one_way = both_ways = 1 / len(links)
    sockets = math.ceil(len(links) / SOCKET_GPUS)
    out = 1e-9 * one_way * sum(one.out_bytes_per_second for one in links)
    both = 1e-9 * both_ways * sum(one.both_bytes_per_second for one in links)
    return JointLinks(
        memory=memory,
        gpus=len(links),
        in_gbytes_per_second=1e-9 * one_way * sum(one.in_bytes_per_second for one in links),
        out_gbytes_per_second=min(out, sockets * SOCKET_OUT_GBYTES_PER_SECOND),
        both_gbytes_per_second=min(both, sockets * SOCKET_BOTH_GBYTES_PER_SECOND),
        source=f"assumed: {one_way:.0%} of the sum one way, {both_ways:.0%} both ways, at most "
        f"{SOCKET_OUT_GBYTES_PER_SECOND:g} and {SOCKET_BOTH_GBYTES_PER_SECOND:g} GB/s for each "
        f"{SOCKET_GPUS} GPUs",
    )


def share_links(joint: JointLinks, links: Sequence[LinkRates]) -> list[LinkRates]:
    """Each link while all are busy: its part of the joint rates, and no more than it has alone."""
    in_share, out_share, both_share = (
        min(1.0, 1e9 * rate / total)
        for rate, total in (
            (joint.in_gbytes_per_second, sum(one.in_bytes_per_second for one in links)),
            (joint.out_gbytes_per_second, sum(one.out_bytes_per_second for one in links)),
            (joint.both_gbytes_per_second, sum(one.both_bytes_per_second for one in links)),
        )
    )
    shared = []
    for one in links:
        into, out = in_share * one.in_bytes_per_second, out_share * one.out_bytes_per_second
        duplex = max(1.0, (into + out) / (both_share * one.both_bytes_per_second))
        shared.append(LinkRates(into, out, duplex))
    return shared
