"""A cache of plans, by product and options.

A plan is chosen anew when runs have corrected a prediction by much (`profile.corrections`). That
happens seldom, and takes a millisecond or two.
"""

from typing import Final, TypeAlias

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.device_sets import DeviceSet
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

CAPACITY: Final = 1024
"""Plans that are kept; chosen, to bound host memory."""

_Question: TypeAlias = tuple[
    int, int, int, str, str, bool, PlanOptions | None, int, DeviceSet | None
]


class PlanCache:
    """The plans that were used last. Thread-safe."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._kept = LastUsed[_Question, Plan](capacity)

    def choose(
        self,
        problem: GemmProblem,
        profile: MachineProfile,
        options: PlanOptions = NO_OPTIONS,
        device_set: DeviceSet | None = None,
    ) -> Plan:
        """The plan of `choose_plan`, which is called here once for equal arguments.

        Raises:
            PlanError: An option cannot be met. Refusals are not cached.
        """
        # Numbers and strings hash faster than dataclasses. A cached plan keeps its profile alive,
        # so no other profile gets the same id.
        question = (
            problem.m, problem.n, problem.k, problem.dtype, problem.memory, problem.b_resident,
            None if options is NO_OPTIONS else options, id(profile), device_set,
        )  # fmt: skip
        plan = self._kept.find(question)
        if plan is not None and plan.version == profile.corrections.version:
            return plan
        chosen = choose_plan(problem, profile, options, device_set)
        self._kept.keep(question, chosen)
        return chosen

    def __len__(self) -> int:
        return len(self._kept)
