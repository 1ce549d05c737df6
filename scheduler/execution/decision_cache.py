"""A cache of what is reused by the next product of a plan."""

from typing import Final, Generic, TypeVar

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.planning.plan import Decision, Plan

T = TypeVar("T")

MOST_KEPT: Final = 512
"""Decisions in the cache; chosen, to bound host memory."""


class DecisionCache(Generic[T]):
    """A value for each plan; plans with the same decision share it. Thread-safe.

    Found by identity: to compare decisions takes longer than to enqueue a small product.
    """

    def __init__(self) -> None:
        self._kept = LastUsed[int, tuple[Decision, T]](MOST_KEPT)

    def find(self, plan: Plan) -> T | None:
        """The value of a plan; None if there is none."""
        decision = plan.decision
        kept = self._kept.find(id(decision))
        return kept[1] if kept is not None and kept[0] is decision else None

    def keep(self, plan: Plan, value: T) -> None:
        """Store a plan's value in place of an earlier one."""
        decision = plan.decision
        self._kept.keep(id(decision), (decision, value))
