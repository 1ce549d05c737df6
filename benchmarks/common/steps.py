"""How the time of a run is divided among its measurements."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.common.results import Record
from wavetrim.kernels.errors import DeviceFailure, KernelsError
from wavetrim.scheduler.errors import SchedulerError

Item = TypeVar("Item")


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

    Raises:
        DeviceFailure: The GPU cannot be used after this failure.
    """
    for step, step_until in share_time(steps, [step.estimate_seconds for step in steps], until):
        seconds = step_until - time.perf_counter()
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


def share_time(
    items: Sequence[Item], weights: Sequence[float], until: float
) -> Iterator[tuple[Item, float]]:
    """Yield each item with the time by which it should be over.

    Args:
        items: What is measured, one after the other.
        weights: Weight of each item; an item gets its share of the time that is left.
        until: Value of time.perf_counter() by which all should be over.
    """
    for index, item in enumerate(items):
        now = time.perf_counter()
        yield item, now + (until - now) * weights[index] / sum(weights[index:])
