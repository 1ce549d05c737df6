"""Plans by shape: made once, when a product is posted or first waits for an engine.

They say how long products should take. A plan for a new shape takes milliseconds, so it is made in
a thread.
"""

import time
from contextlib import suppress
from typing import Final

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.choice import CAPACITY, PlanCache
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.service.engine.engine import Engine
from wavetrim.service.threads import run_to_end

UNKNOWN_RATE: Final = 2e10
"""Operations a second of a product that is not planned yet; chosen, as a CPU core has."""

_LOOK_SECONDS: Final = 0.1
"""How long a new calibration may go unnoticed; chosen: to look for one is a call of the system,
which lets other threads go first."""

_Shape = tuple[int, int, int, int, str, PlanOptions | None]


class Plans:
    """The plans of this machine, and how long the nodes of a cluster take. Thread-safe.

    Attributes:
        cache: All plans.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.cache = PlanCache()
        # The profile is kept as well, so no other one gets the same id. No problem: it is refused.
        self._known = LastUsed[_Shape, tuple[MachineProfile, GemmProblem | None]](CAPACITY)
        self._looked: tuple[ProfileProvider, MachineProfile, float] | None = None

    def plan(self, request: RunRequest) -> Plan | None:
        """The plan of a product for this machine; None before the engine has run.

        Raises:
            FieldError: An option cannot be met for this product on this machine.
        """
        return None if self._engine.cpu_threads is None else self._choose(request)

    async def plan_once(self, request: RunRequest) -> None:
        """Plan a product unless one of its shape was planned; raises as `plan`."""
        known = self._known.find(_find_shape(request, self.find_profile(request)))
        if known is None or known[1] is None:  # a refusal is told each time
            await run_to_end(self.plan, request)

    def predict(self, request: RunRequest) -> float:
        """How long this machine should take for a product, or for all products of a stack.

        It is a guess from the size if it was not planned yet.
        """
        profile = self.find_profile(request)
        known = self._known.find(_find_shape(request, profile))
        if known is None or known[1] is None:
            return 2.0 * request.terms / UNKNOWN_RATE
        plan = self.cache.choose(known[1], profile, request.options)
        return request.products * plan.predicted.total_seconds

    def knows(self, request: RunRequest, profile: MachineProfile) -> bool:
        """Whether a product was planned for a machine, or refused."""
        return _find_shape(request, profile) in self._known

    def find_seconds(self, request: RunRequest, profile: MachineProfile) -> float | None:
        """How long a machine should take for one product; None if it cannot meet its options."""
        with suppress(FieldError):
            return self._choose(request, profile).predicted.total_seconds
        return None

    def find_profile(self, request: RunRequest) -> MachineProfile:
        """This machine's profile for a product; a new calibration is noticed a moment later."""
        now, profiles, looked = time.monotonic(), self._engine.profiles, self._looked
        if request.cpu_only:
            return profiles.find("cpu")
        if looked is None or looked[0] is not profiles or now - looked[2] > _LOOK_SECONDS:
            looked = self._looked = profiles, profiles.find(), now
        return looked[1]

    def _choose(self, request: RunRequest, profile: MachineProfile | None = None) -> Plan:
        """The plan for a machine, for this one if none is named."""
        profile = profile or self.find_profile(request)
        shape, out = _find_shape(request, profile), request.out
        _, problem = self._known.find(shape) or (profile, None)
        if problem is not None:
            return self.cache.choose(problem, profile, request.options)
        memory: Memory = "pinned" if profile.gpus else "pageable"
        columns = request.a.columns
        problem = GemmProblem(out.rows, out.columns, columns, out.dtype, memory, may_be_empty=True)
        try:
            plan = self.cache.choose(problem, profile, request.options)
        except FieldError:
            self._known.keep(shape, (profile, None))
            raise
        self._known.keep(shape, (profile, problem))
        return plan


def _find_shape(request: RunRequest, profile: MachineProfile) -> _Shape:
    out, options = request.out, request.options
    chosen = None if options == NO_OPTIONS else options
    return id(profile), out.rows, out.columns, request.a.columns, out.dtype, chosen
