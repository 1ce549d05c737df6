"""The lanes that a product may take on this machine: found once for each shape, in a thread."""

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.candidates import find_positions
from wavetrim.scheduler.planning.lanes import CPU, Choice, Lane, list_choices
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.lanes.turn import Turn

_CAPACITY: Final = 1024
"""Shapes whose choices are kept, and matrices B whose GPUs are."""

_KEPT_SECONDS: Final = 10.0
"""How long choices are fresh; chosen: plans change as runs correct them."""

_ANYWHERE: Final = (Choice(frozenset(), 0.0),)
"""The choice of a product that needs no device: the engine's main thread computes it."""

_Shape = tuple[int, int, int, str, Memory, PlanOptions, bool, Lane]

_NOWHERE: Final[Lane] = frozenset()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The choices of a shape, the profile that they are from, and when."""

    profile: MachineProfile
    choices: tuple[Choice, ...]
    found_at: float


class Choices:
    """The choices of products by shape. Safe to use from several threads.

    Args:
        engine: This machine's engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._plans = PlanCache()
        self._kept = LastUsed[_Shape, _Kept](_CAPACITY)
        self._residents: OrderedDict[str, Lane] = OrderedDict()

    @property
    def devices(self) -> tuple[int, ...]:
        """All devices of the engine: its GPUs' positions, and the CPU."""
        return (*range(len(self._engine.devices)), CPU)

    def is_fresh(self, turn: Turn) -> bool:
        """Whether a product's choices were found not long ago, for the present profile."""
        return turn.needs_no_device or self._find_fresh(turn.request) is not None

    def find_kept(self, turn: Turn) -> tuple[Choice, ...] | None:
        """The choices of a product as last found, even if not fresh; None if there are none."""
        if turn.needs_no_device:
            return _ANYWHERE
        shape = self._find_shape(turn.request)
        kept = self._kept.find(shape) or self._kept.find((*shape[:-1], _NOWHERE))
        if kept is None or kept.profile is not self._find_profile(turn.request):
            return None
        return kept.choices

    def find(self, request: RunRequest) -> tuple[Choice, ...]:
        """The choices of a product; all devices if none here can meet its options."""
        if (fresh := self._find_fresh(request)) is not None:
            return fresh.choices  # found for another product of the shape
        shape = m, n, k, dtype, memory, options, _, resident = self._find_shape(request)
        profile = self._find_profile(request)

        def choose(lane: Lane, b_resident: bool) -> Plan:
            problem = GemmProblem(m, n, k, dtype, memory, b_resident, may_be_empty=True)
            return self._plans.choose(problem, profile, options, lane)

        try:
            positions = find_positions(profile, options.devices)
            gpus = [(position, profile.gpus[position].device) for position in positions]
            choices = list_choices(gpus, choose, resident)
        except FieldError:
            choices = ()  # the engine says what is wrong
        choices = choices or (Choice(frozenset(self.devices), 0.0),)
        self._kept.keep(shape, _Kept(profile, choices, time.monotonic()))
        return choices

    def find_residents(self, request: RunRequest) -> Lane:
        """The GPUs on which a product's B was last seen; it may have left meanwhile."""
        return self._residents.get(request.b_key, _NOWHERE) if request.b_key else _NOWHERE

    def note_residents(self, b_key: str, gpus: Iterable[int]) -> None:
        """The engine says, after a product, on which GPUs its B is."""
        self._residents.pop(b_key, None)
        if lane := frozenset(gpus):
            self._residents[b_key] = lane
        if len(self._residents) > _CAPACITY:
            self._residents.popitem(last=False)

    def _find_fresh(self, request: RunRequest) -> _Kept | None:
        kept = self._kept.find(self._find_shape(request))
        if kept is None or kept.profile is not self._find_profile(request):
            return None
        return kept if time.monotonic() - kept.found_at <= _KEPT_SECONDS else None

    def _find_profile(self, request: RunRequest) -> MachineProfile:
        return self._engine.profiles.find("cpu" if request.cpu_only else None)

    def _find_shape(self, request: RunRequest) -> _Shape:
        out = request.out
        in_arena = all(isinstance(one.slab, int) for one in (request.a, request.b, out))
        memory: Memory = "pinned" if in_arena else "pageable"
        options = NO_OPTIONS if request.cpu_only else request.options
        return (
            out.rows, out.columns, request.a.columns, out.dtype, memory, options, request.cpu_only,
            self.find_residents(request),
        )  # fmt: skip
