"""What is kept for the next product of a plan."""

from typing import Final, Generic, TypeVar

from wavetrim.scheduler.planning.plan import Plan

T = TypeVar("T")

MOST_KEPT: Final = 64
"""Plans for which something is kept; chosen, to bound host memory."""


class KeptByPlan(Generic[T]):
    """Something for each plan; all of it is dropped once there are too many plans. Thread-safe.

    By identity: to compare plans would take longer than to enqueue a small product.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Plan, T]] = {}

    def find(self, plan: Plan) -> T | None:
        """What was kept for a plan; None if nothing was."""
        kept = self._kept.get(id(plan))
        return kept[1] if kept is not None and kept[0] is plan else None

    def keep(self, plan: Plan, thing: T) -> None:
        """Keep something in place of what was kept for this plan."""
        if len(self._kept) >= MOST_KEPT and id(plan) not in self._kept:
            self._kept.clear()
        self._kept[id(plan)] = plan, thing
