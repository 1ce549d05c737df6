"""How the time of a run is divided among its measurements."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from benchmarks.common.results import Record
from wavetrim.kernels.errors import DeviceFailure, KernelsError
from wavetrim.scheduler.errors import SchedulerError

Item = TypeVar("Item")

LEAST_SHARE: Final = 0.85
"""Share of their estimates that later steps keep when an earlier one takes more time."""

LEAST_PART: Final = 0.25
"""Least part of its estimate that a step is begun with; chosen."""


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
    """Take the steps in order. Where time is short, the longest ones are left out.

    A step that fails is left out, too.

    Args:
        steps: The steps.
        until: Value of time.perf_counter() by which all should be done.
        record: Written after each step.

    Raises:
        DeviceFailure: The GPU computes nothing after this failure.
    """
    waiting = list(steps)
    while waiting:
        left = until - time.perf_counter()
        estimates = [step.estimate_seconds for step in waiting]
        excess = find_excess(left, estimates)
        step = waiting.pop(0 if excess is None else excess)
        if excess is not None:
            record.leave_out(step.name, f"{max(left, 0):.0f} s are left")
            continue
        try:
            step.act(share_seconds(left, estimates))
        except (KernelsError, SchedulerError, MemoryError) as error:
            record.leave_out(step.name, f"{type(error).__name__}: {error}")
            if isinstance(error, DeviceFailure) and error.poisoned:
                raise
        finally:
            record.write()
            print(f"--- {step.name}, {until - time.perf_counter():.0f} s left", flush=True)


def find_excess(left: float, estimates: Sequence[float]) -> int | None:
    """Index of the longest measurement if there is too little time for all, else None."""
    if LEAST_PART * sum(estimates) <= left:
        return None
    return max(range(len(estimates)), key=lambda index: (estimates[index], index))


def share_seconds(left: float, estimates: Sequence[float]) -> float:
    """Seconds that the first of some measurements may take of the time that is left.

    That is its share by estimate; or more, if the others still have LEAST_SHARE of theirs.
    """
    first, *others = estimates
    return max(left * first / sum(estimates), left - LEAST_SHARE * sum(others))


def share_time(
    items: Sequence[Item], weights: Sequence[float], until: float
) -> Iterator[tuple[Item, float]]:
    """Yield each item with the time by which it should be over.

    Args:
        items: What is measured, one after the other.
        weights: Each item's weight among those that are left when its turn comes.
        until: Value of time.perf_counter() by which all should be over.
    """
    for place, item in enumerate(items):
        now = time.perf_counter()
        yield item, now + (until - now) * weights[place] / sum(weights[place:])
