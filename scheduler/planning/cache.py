"""A cache of plans: the same question has the same answer until runs correct it."""

import threading
from typing import Final, TypeAlias

from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.lanes import Lane
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.trial import TRIAL_INTERVAL, find_trial
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

CAPACITY: Final = 256
"""Plans that are kept; chosen. A program repeats few shapes."""

_Question: TypeAlias = tuple[int, int, int, str, str, bool, PlanOptions | None, int, Lane | None]


class PlanCache:
    """The plans that were used last. Thread-safe.

    Plans have two generations. An old plan that is used again becomes young; once half of the
    capacity is young, all old plans are dropped. So finding a young plan is one lookup without a
    lock.

    Args:
        capacity: Largest number of plans, at least 2.
        explores: Whether one of `TRIAL_INTERVAL` products may be a trial.
    """

    def __init__(self, capacity: int = CAPACITY, *, explores: bool = False) -> None:
        self._most_young = max(1, capacity // 2)
        self._young: dict[_Question, Plan] = {}
        self._old: dict[_Question, Plan] = {}
        self._lock = threading.Lock()
        self._explores = explores
        self._products = 0

    def choose_next(
        self,
        problem: GemmProblem,
        profile: MachineProfile,
        options: PlanOptions = NO_OPTIONS,
        lane: Lane | None = None,
    ) -> Plan:
        """The plan of a product that runs next: that of `choose`, or now and then a trial.

        There are no trials in a lane: they might use devices outside it.
        """
        plan = self.choose(problem, profile, options, lane)
        if not self._explores or lane is not None:
            return plan
        self._products += 1
        if self._products < TRIAL_INTERVAL:
            return plan
        self._products = 0
        return find_trial(plan, options) or plan

    def choose(
        self,
        problem: GemmProblem,
        profile: MachineProfile,
        options: PlanOptions = NO_OPTIONS,
        lane: Lane | None = None,
    ) -> Plan:
        """The plan of `choose_plan`, which is called once for equal arguments.

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
        plan = self._young.get(question)
        if plan is None or not plan.is_current:
            old = self._old.get(question) if plan is None else None
            plan = old if old and old.is_current else choose_plan(problem, profile, options, lane)
            with self._lock:
                if len(self._young) >= self._most_young:
                    self._old, self._young = self._young, {}
                self._young[question] = plan
        return plan

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())
