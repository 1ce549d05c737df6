"""A trace: which caller posts which product, and when. Drawn by a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.common.shapes import DTYPES

CALLERS: Final = ("ada", "ben", "eve")
"""The first one posts half of all jobs."""

SIZES: Final = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
SIZES_ON_FEW_CORES: Final = (32, 64, 128, 256, 512, 1024)
"""M = N = K of a trace's jobs, equally often, with and without a GPU."""

LOADS: Final = (0.5, 0.8, 1.1)
"""Arrivals over what the machine does; at 1.1 the queue grows until the trace ends."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A job of a trace.

    Attributes:
        caller: Who posts it.
        size: M = N = K.
        dtype: Element type.
        at: When, in mean times between two jobs.
    """

    caller: str
    size: int
    dtype: str
    at: float = 0.0


def draw_trace(seed: str, count: int, sizes: Sequence[int]) -> list[Ask]:
    """Jobs of all sizes and types, with exponential times between them (Poisson)."""
    drawn, at = random.Random(seed), 0.0
    trace = []
    for _ in range(count):
        at += drawn.expovariate(1.0)
        (caller,) = drawn.choices(CALLERS, (2, 1, 1))
        trace.append(Ask(caller, drawn.choice(sizes), drawn.choice(DTYPES), at))
    return trace
