"""Whether a machine is at rest: repeats the same work, and finds by how much its times differ."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

MOST_SPREAD: Final = 0.15
"""Largest spread of runs at which a machine's times are reliable; chosen."""

_SIDE: Final = 1024
_RUNS: Final = 3
_PRODUCTS: Final = 7
"""Products of a run, which is their median, so that an interrupted one does not count; chosen."""


@dataclass(slots=True)
class Steadiness:
    """The runs of a product, on each device.

    Attributes:
        runs: Seconds of each run, by device.
    """

    runs: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, executor: Executor, profile: MachineProfile) -> None:
        """Add some runs on the CPU and, if there is one, the GPU.

        Args:
            executor: Computes them.
            profile: What plans are made from; F is given, so it hardly matters.
        """
        problem = GemmProblem(_SIDE, _SIDE, _SIDE)
        a = np.ones((_SIDE, _SIDE), np.float32)
        c = np.empty_like(a)
        rows = {"CPU": _SIDE, **({"GPU": 0} if executor.devices else {})}
        for name, f in rows.items():
            plan = choose_plan(problem, profile, PlanOptions(f=f))

            def multiply() -> float:
                return executor.run(plan, a, a, c).total_seconds  # noqa: B023 - called at once

            self.runs.setdefault(name, []).extend(_repeat(multiply))

    def list_spreads(self) -> dict[str, float]:
        """The spread of each device's runs."""
        return {name: find_spread(seconds) for name, seconds in self.runs.items()}


def find_spread(seconds: Sequence[float]) -> float:
    """The slowest time over the fastest, less 1."""
    return max(seconds) / min(seconds) - 1


def _repeat(multiply: Callable[[], float]) -> list[float]:
    multiply()  # warms up
    return [statistics.median(multiply() for _ in range(_PRODUCTS)) for _ in range(_RUNS)]
