"""A cache of plans. No product waits for a plan that it has: `Revisions` make plans anew."""

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.model.corrections import NO_CORRECTIONS
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.lanes import Lane
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.revisions import Revisions
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

logger = logging.getLogger(__name__)

CAPACITY: Final = 1024
"""Plans that are kept; chosen, to bound host memory."""

_Question: TypeAlias = tuple[int, int, int, str, str, bool, PlanOptions | None, int, Lane | None]


class PlanCache:
    """The plans that were used last. Thread-safe.

    Args:
        capacity: Most plans, at least 1.
        revises: Whether plans are made anew once runs have moved their corrections. Of no use where
            only refusals matter.
        prepare: Called with a plan that was made anew before a product gets it, as its kernel may
            have to be compiled; None where no products run.
    """

    def __init__(
        self,
        capacity: int = CAPACITY,
        *,
        revises: bool = True,
        prepare: Callable[[Plan], None] | None = None,
    ) -> None:
        self._kept = LastUsed[_Question, _Kept](capacity)
        self._revises = revises
        self._prepare = prepare
        self._revisions = Revisions(self._kept.list_values)

    def choose(
        self,
        problem: GemmProblem,
        profile: MachineProfile,
        options: PlanOptions = NO_OPTIONS,
        lane: Lane | None = None,
    ) -> Plan:
        """The plan of `choose_plan`, which is called here once for equal arguments.

        A plan whose corrections later runs have moved is made anew beside products, and returned
        from then on.

        Args:
            problem: The product.
            profile: The machine; compared by identity.
            options: Options of the plan.
            lane: Devices that may be used; None for all.

        Raises:
            PlanError: An option cannot be met. Refusals are not cached.
        """
        # Numbers and strings hash faster than dataclasses. A cached plan keeps its profile alive,
        # so no other profile gets the same id.
        question = (
            problem.m, problem.n, problem.k, problem.dtype, problem.memory, problem.b_resident,
            None if options is NO_OPTIONS else options, id(profile), lane,
        )  # fmt: skip
        kept = self._kept.find(question)
        if kept is None:
            plan = choose_plan(problem, profile, options, lane)
            kept = _Kept(plan, profile, options, lane, self._prepare)
            self._kept.keep(question, kept)
        elif self._revises and kept.learns:
            kept.was_used = True
            if not self._revisions.are_running:
                self._revisions.start()
        return kept.plan

    def close(self) -> None:
        """Make no plan anew from now on; returns once none is being made."""
        self._revisions.close()

    def __len__(self) -> int:
        return len(self._kept)


class _Kept:
    """A plan and what it was chosen by.

    Attributes:
        plan: The plan.
        learns: Whether runs correct its profile.
        was_used: Whether the plan was used since it was last looked at.
    """

    __slots__ = ("_lane", "_options", "_prepare", "_profile", "learns", "plan", "was_used")

    def __init__(
        self,
        plan: Plan,
        profile: MachineProfile,
        options: PlanOptions,
        lane: Lane | None,
        prepare: Callable[[Plan], None] | None,
    ) -> None:
        self._profile, self._options, self._lane = profile, options, lane
        self._prepare = prepare
        self.plan = plan
        self.learns = profile.corrections is not NO_CORRECTIONS
        self.was_used = False

    def revise(self) -> None:
        """Make the plan anew if runs have moved its corrections.

        What is prepared for the old plan serves a new one that has the devices do the same.
        """
        self.was_used = False
        if self.plan.is_current:
            return
        try:
            plan = choose_plan(self.plan.problem, self._profile, self._options, self._lane)
            _ = plan.decision  # a search, for which the next product would wait
            if self._prepare is not None:
                self._prepare(plan)
        except Exception:
            logger.exception("a plan is kept as it is, because it cannot be made anew")
            self.learns = False
            return
        self.plan = plan
