"""Plans by shape: made once, when a product is posted or first waits for an engine.

They say how long products should take. A plan for a new shape takes milliseconds, so it is made in
a thread.

Some products are so small that the way to the engine and back takes longer than computing them. The
event loop's thread computes them itself, and serves no other request meanwhile: only those that are
planned on one CPU thread, for less time than it takes to read a request.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.last_used import LastUsed
from wavetrim.native.element_types import find_dtype, round_factor
from wavetrim.scheduler.engine.answer import make_success
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.small_stacks import compute_small_stack
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.choice import CAPACITY, PlanCache
from wavetrim.scheduler.planning.description import describe_choice, describe_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.product import EngineProduct
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.service.engine.engine import Engine
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.threads import run_to_end

INLINE_SECONDS: Final = 1e-4
"""Longest predicted time of an inline product; chosen, since other requests wait meanwhile."""

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


class InlineProducts:
    """Computes the smallest products in the calling thread."""

    def __init__(self, plans: Plans, cache_dir: Path) -> None:
        self._plans = plans
        self._described = LastUsed[int, tuple[Plan, dict[str, Any]]](CAPACITY)
        self._executor = Executor(cache_dir=cache_dir, cpu_threads=1)

    def compute(self, request: RunRequest, extents: Sequence[Extent]) -> dict[str, Any] | None:
        """Compute a product, if it is small enough.

        Returns:
            The message of success, as the engine's, with `queue_seconds`; None for a product that
            the engine computes.
        """
        if (plan := self._find_plan(request)) is None:
            return None
        a, b, out = (_find_matrix(one, extents) for one in (request.a, request.b, request.out))
        if a is None or b is None or out is None:
            return None
        alpha = round_factor(request.alpha, out.dtype)
        described = self._describe(plan) if request.reports else describe_choice(plan)
        if request.out.stack is None:
            timings = self._executor.run(plan, a, b, out, alpha=alpha)
        else:
            timings = compute_small_stack(
                EngineProduct(a, b, None, out, alpha), self._executor.pool
            )
            described = {**described, "stack": request.products}
        return {**make_success(described, timings.as_dict(), None), "queue_seconds": 0.0}

    def _describe(self, plan: Plan) -> dict[str, Any]:
        """A plan as the engine describes it; made once, as that takes as long as a product."""
        kept = self._described.find(id(plan))
        if kept is None or kept[0] is not plan:
            kept = plan, describe_plan(plan)
            self._described.keep(id(plan), kept)
        return kept[1]

    def takes(self, request: RunRequest) -> bool:
        """Whether a product is small enough; False for others, and before the engine runs."""
        return self._find_plan(request) is not None

    def _find_plan(self, request: RunRequest) -> Plan | None:
        # Others are not even planned here: a plan for a new shape takes some time.
        if not (_is_plain(request) and request.is_small and request.needs_one_thread):
            return None
        plan = self._plans.plan(request)
        if plan is None or request.products * plan.predicted.total_seconds > INLINE_SECONDS:
            return None
        return plan if plan.f == request.out.rows else None


def _is_plain(request: RunRequest) -> bool:
    """Whether a product is A·B times a factor, without conversions, options or a check."""
    dtype = request.out.dtype
    same = request.a.dtype == dtype == request.b.dtype
    plain = request.c is None and request.options == NO_OPTIONS
    return same and plain and not request.verify and not request.is_empty


def _find_matrix(operand: Operand, extents: Sequence[Extent]) -> NDArray[Any] | None:
    """The matrix or the stack of an operand in the arena; None for one in a file."""
    if isinstance(operand.slab, str):
        return None
    for extent in extents:
        begin = operand.offset_bytes - extent.offset_bytes
        if extent.slab == operand.slab and 0 <= begin < len(extent.view):
            order: Any = "F" if operand.fortran_order else "C"
            dtype, strides = find_dtype(operand.dtype), operand.strides_bytes
            return np.ndarray(operand.shape, dtype, extent.view, begin, strides, order)
    return None
