"""Turns: baselines are interleaved, so that clocks, caches and temperature are the same for all."""

import math
import random
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Side = TypeVar("Side")


def take_turns(
    sides: Iterable[Side],
    rounds: int,
    *,
    least: int = 0,
    seed: str = "",
    until: float = math.inf,
) -> Iterator[tuple[int, Side]]:
    """Yield every side once a round, each round in another order.

    The order is random, because each side affects the clocks of the next. All sides begin equally
    often.

    Args:
        sides: Baselines, or other things that take turns.
        rounds: Rounds, if there is time.
        least: Rounds that take place even after `until`.
        seed: Seed of the orders; different for each contest, because in few rounds a side may often
            follow the same other side.
        until: Value of time.perf_counter() after which no further round begins.

    Yields:
        The round, from 0, and a side.
    """
    known = list(sides)
    for turn in range(rounds if known else 0):
        if turn >= least and time.perf_counter() > until:
            return
        first = turn % len(known)
        others = known[:first] + known[first + 1 :]
        random.Random(f"{seed} {turn}").shuffle(others)
        for side in (known[first], *others):
            yield turn, side
