"""A run's time: steps share it, and baselines take turns.

They are interleaved, so that clocks, caches and temperature are the same for all.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.common.results import Record
from wavetrim.kernels.errors import DeviceFailure, KernelsError
from wavetrim.scheduler.errors import SchedulerError

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


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement of a run.

    Attributes:
        name: Its name in the log and in the list of what was left out.
        estimate_seconds: About how long it should take.
        act: Measures, in the given seconds.
    """

    name: str
    estimate_seconds: float
    act: Callable[[float], None]


def take_steps(steps: Sequence[Step], until: float, record: Record) -> None:
    """Take the steps in order, each in its share of the time that is left, by its estimate.

    A step is left out if no time is left, or if it fails.

    Args:
        steps: The steps, the important ones first.
        until: Value of time.perf_counter() by which all should be done.
        record: Written after each step.
    """
    for number, step in enumerate(steps):
        weight = step.estimate_seconds / sum(one.estimate_seconds for one in steps[number:])
        seconds = (until - time.perf_counter()) * weight
        if seconds <= 0:
            record.leave_out(step.name, "no time is left")
            continue
        try:
            step.act(seconds)
        except (KernelsError, SchedulerError, MemoryError) as error:
            record.leave_out(step.name, f"{type(error).__name__}: {error}")
            if isinstance(error, DeviceFailure) and error.poisoned:
                raise
        finally:
            record.write()
            print(f"--- {step.name}, {until - time.perf_counter():.0f} s left", flush=True)
