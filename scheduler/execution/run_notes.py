"""Which runs are recorded, so that their times correct later predictions."""

from typing import Final

from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.execution.timings import Timings, compare_with_plan
from wavetrim.scheduler.planning.plan import Plan

BRIEF_SECONDS: Final = 3e-3
"""Predicted time below which not every run is recorded; chosen."""

BRIEF_RUNS_NOTED: Final = 7
"""One of this many brief runs is recorded. Chosen: recording takes some microseconds; of runs that
come in pairs, a number that is odd records both kinds."""


class RunNotes:
    """Records the runs of one executor in the corrections of their plans' profiles."""

    def __init__(self) -> None:
        self._warm: set[tuple[KernelSpec | None, tuple[int, ...]]] = set()
        self._brief_runs = 0
        # By identity: comparing kernels takes longer than enqueueing one.
        self._last: Plan | None = None

    def has_run(self, plan: Plan) -> bool:
        """Whether the plan's kernel has run on its GPUs."""
        return (plan.spec, plan.positions) in self._warm

    def note(self, plan: Plan, timings: Timings, *, alone: bool) -> None:
        """Record the time of each part of a product that ran alone.

        A kernel's first run, which loads it, and most brief products are not recorded.

        Args:
            plan: The plan.
            timings: Its run's times.
            alone: Whether no other product ran at the same time.
        """
        if plan.predicted.total_seconds < BRIEF_SECONDS:
            self._brief_runs += 1
            alone = alone and self._brief_runs % BRIEF_RUNS_NOTED == 0
        if plan is not self._last and not self.has_run(plan):
            self._warm.add((plan.spec, plan.positions))
        elif alone:
            for correction, predicted_seconds, seconds in compare_with_plan(plan, timings):
                plan.profile.corrections.note(correction.run_class, predicted_seconds, seconds)
        self._last = plan
