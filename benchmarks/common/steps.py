"""How the time of a run is divided among its measurements."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.common.results import Record
from wavetrim.kernels.errors import DeviceFailure, KernelsError
from wavetrim.scheduler.errors import SchedulerError


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
