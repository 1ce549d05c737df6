"""What is kept for the next product of a plan."""

from typing import Final, Generic, TypeVar

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.planning.plan import Decision, Plan

T = TypeVar("T")

MOST_KEPT: Final = 512
"""Decisions for which something is kept; chosen, to bound host memory."""


class KeptByPlan(Generic[T]):
    """Something for each plan; plans with the same decision share it. Thread-safe.

    By identity: to compare decisions would take longer than to enqueue a small product.
    """

    def __init__(self) -> None:
        self._kept = LastUsed[int, tuple[Decision, T]](MOST_KEPT)

    def find(self, plan: Plan) -> T | None:
        """What was kept for a plan; None if nothing was."""
        decision = plan.decision
        kept = self._kept.find(id(decision))
        return kept[1] if kept is not None and kept[0] is decision else None

    def keep(self, plan: Plan, thing: T) -> None:
        """Keep something in place of what was kept for this plan."""
        decision = plan.decision
        self._kept.keep(id(decision), (decision, thing))
