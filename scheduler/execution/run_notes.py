"""Which runs are recorded, so that their times correct later predictions."""

from typing import Final

from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.execution.timings import Timings, list_ratios
from wavetrim.scheduler.planning.plan import Plan

SAMPLED_SECONDS: Final = 3e-3
"""Predicted time below which only some runs are recorded; chosen."""

SAMPLED_EVERY: Final = 7
"""One of this many such runs is recorded. Chosen: recording takes some microseconds, and an odd
number records both kinds of runs that alternate."""


class RunNotes:
    """Records the runs of one executor in the corrections of their plans' profiles."""

    def __init__(self) -> None:
        self._warm: set[tuple[KernelSpec | None, tuple[int, ...]]] = set()
        self._sampled_runs = 0
        # By identity: comparing kernels takes longer than enqueueing one.
        self._last: Plan | None = None

    def has_run(self, plan: Plan) -> bool:
        """Whether the plan's kernel has run on its GPUs."""
        return (plan.spec, plan.positions) in self._warm

    def note(self, plan: Plan, timings: Timings, *, alone: bool) -> None:
        """Record the time of each part of a product that ran alone.

        A kernel's first run, which loads it, is not recorded, and of short ones only some are.
        """
        if plan.uncorrected.total_seconds < SAMPLED_SECONDS:
            self._sampled_runs += 1
            alone = alone and self._sampled_runs % SAMPLED_EVERY == 0
        if plan is not self._last and not self.has_run(plan):
            self._warm.add((plan.spec, plan.positions))
        elif alone:
            for kind, predicted_seconds, seconds in list_ratios(plan, timings):
                plan.profile.corrections.note(kind, predicted_seconds, seconds)
        self._last = plan
