"""Plans that were made before: the same question has the same answer until runs correct it."""

import threading
from typing import Final, TypeAlias

from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.plan import Plan, choose_plan
from wavetrim.scheduler.planning.trial import TRIAL_INTERVAL, find_trial
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

CAPACITY: Final = 256
"""Plans that are kept: the shapes that a program asks for over and over are few."""

_Question: TypeAlias = tuple[GemmProblem, PlanOptions, int]


class PlanCache:
    """The plans that were asked for last. Safe to use from several threads.

    Plans are of two generations. One that is found among the old ones becomes young; when half of
    the capacity is young, the old ones go. So a plan that is found costs one look, without a lock.

    Args:
        capacity: How many plans are kept at most, at least 2.
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
        self, problem: GemmProblem, profile: MachineProfile, options: PlanOptions = NO_OPTIONS
    ) -> Plan:
        """The plan of a product that is about to run: `choose`, or now and then a trial."""
        plan = self.choose(problem, profile, options)
        if not self._explores:
            return plan
        self._products += 1
        if self._products < TRIAL_INTERVAL:
            return plan
        self._products = 0
        return find_trial(plan, options) or plan

    def choose(
        self, problem: GemmProblem, profile: MachineProfile, options: PlanOptions = NO_OPTIONS
    ) -> Plan:
        """As `choose_plan`, which is asked once for each product, profile and options.

        Args:
            problem: The product.
            profile: The machine; another object is another profile.
            options: What is not left to the planner.

        Raises:
            PlanError: An option cannot be met; refusals are not kept.
        """
        # A plan holds its profile, so no other one has its id while the plan is here.
        question = problem, options, id(profile)
        plan = self._young.get(question)
        if plan is None or not plan.is_current:
            old = self._old.get(question) if plan is None else None
            plan = old if old and old.is_current else choose_plan(problem, profile, options)
            with self._lock:
                if len(self._young) >= self._most_young:
                    self._old, self._young = self._young, {}
                self._young[question] = plan
        return plan

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())
