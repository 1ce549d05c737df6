"""The lanes of this machine: which devices compute which waiting product, and when.

Which a product may take is found once for each shape, in a thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.candidates import find_positions
from wavetrim.scheduler.planning.device_sets import (
    CPU,
    Assignment,
    Choice,
    DeviceSet,
    assign_devices,
    list_choices,
)
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.plans import Plans
from wavetrim.service.jobs.queue import Attempt

if TYPE_CHECKING:
    from wavetrim.service.jobs.lanes.running import Load

_CAPACITY: Final = 1024
"""Shapes whose choices are kept, and matrices B whose GPUs are."""

_ANYWHERE: Final = (Choice(frozenset(), 0.0),)
"""The choice of a product that needs no device: the engine's main thread computes it."""

_NOWHERE: Final[DeviceSet] = frozenset()

_Shape = tuple[int, int, int, int, str, Memory, PlanOptions, bool, DeviceSet]


class _Kept(NamedTuple):
    """The choices of a shape, and the profile that they are from, with its corrections then."""

    profile: MachineProfile
    version: int
    choices: tuple[Choice, ...]


class HostLanes:
    """Places products on this machine's devices. To be used from one event loop, but `find`."""

    def __init__(self, engine: Engine, load: "Load", plans: Plans) -> None:
        self._engine, self._load, self._plans = engine, load, plans
        self._kept = LastUsed[_Shape, _Kept](_CAPACITY)
        self._residents = LastUsed[str | None, DeviceSet](_CAPACITY)

    @property
    def _devices(self) -> tuple[int, ...]:
        """All devices of the engine: its GPUs' positions, and the CPU."""
        return (*range(len(self._engine.devices)), CPU)

    def is_fresh(self, attempt: Attempt) -> bool:
        """Whether a product's choices are those of the present profile, as runs correct it."""
        return attempt.needs_no_device or self._find_fresh(attempt.request) is not None

    def find_kept(self, attempt: Attempt) -> tuple[Choice, ...] | None:
        """The choices of a product as last found, even if not fresh; None if there are none."""
        if attempt.needs_no_device:
            return _ANYWHERE
        shape = self._find_shape(attempt.request)
        kept = self._kept.find(shape) or self._kept.find((*shape[:-1], _NOWHERE))
        if kept is None or kept.profile is not self._plans.find_profile(attempt.request):
            return None
        return kept.choices

    def find(self, request: RunRequest) -> tuple[Choice, ...]:
        """Find where a product may be computed; to be called in a thread, as it may be slow.

        Returns:
            Its choices; all devices if none here can meet its options.
        """
        if (fresh := self._find_fresh(request)) is not None:
            return fresh.choices  # found for another product of the shape
        shape = products, m, n, k, dtype, memory, options, _, resident = self._find_shape(request)
        profile = self._plans.find_profile(request)
        version = profile.corrections.version

        def choose(lane: DeviceSet, b_resident: bool) -> Plan:
            problem = GemmProblem(m, n, k, dtype, memory, b_resident, may_be_empty=True)
            return self._plans.cache.choose(problem, profile, options, lane)

        try:
            positions = find_positions(profile, options.devices)
            gpus = [(position, profile.gpus[position].device) for position in positions]
            found = list_choices(gpus, choose, resident)
        except FieldError:
            found = ()  # the engine says what is wrong
        choices = tuple(replace(one, seconds=products * one.seconds) for one in found)
        choices = choices or (Choice(frozenset(self._devices), 0.0),)
        self._kept.keep(shape, _Kept(profile, version, choices))
        return choices

    def prefers_gpu(self, attempt: Attempt) -> bool:
        """Whether a product's B is on some of the GPUs, but not on all."""
        return 0 < len(self._find_residents(attempt.request)) < len(self._engine.devices)

    def learn(self, attempt: Attempt, message: Message) -> None:
        """Learn from a product's success on which GPUs its B is now."""
        if attempt.request.b_key is not None:
            self._residents.keep(attempt.request.b_key, frozenset(message["b_on"]))

    def assign(
        self, waiting: Mapping[Attempt, Sequence[Choice]], *, behind: int
    ) -> dict[Attempt, Assignment]:
        """Choose where products are computed, in their order; `behind` further ones wait."""
        busy, gpus = self._load.list_busy(self._devices), len(self._devices) - 1
        assigned = assign_devices(list(waiting.values()), busy, gpus, behind=behind)
        return dict(zip(waiting, assigned, strict=True))

    def describe(self) -> list[tuple[str, float]]:
        """Each device, as plans name it, and the expected seconds until it is free."""
        names = [*(f"cuda:{one.index}" for one in self._engine.devices), "cpu"]
        busy = self._load.list_busy(self._devices)
        pairs = zip(names, self._devices, strict=True)
        return [(name, busy.get(device, 0.0)) for name, device in pairs]

    def _find_residents(self, request: RunRequest) -> DeviceSet:
        """The GPUs on which a product's B was last seen; it may have left meanwhile."""
        return self._residents.find(request.b_key) or _NOWHERE

    def _find_fresh(self, request: RunRequest) -> _Kept | None:
        kept = self._kept.find(self._find_shape(request))
        if kept is None or kept.profile is not self._plans.find_profile(request):
            return None
        return kept if kept.version == kept.profile.corrections.version else None

    def _find_shape(self, request: RunRequest) -> _Shape:
        out = request.out
        in_arena = all(isinstance(one.slab, int) for one in (request.a, request.b, out))
        return (
            request.products, out.rows, out.columns, request.a.columns, out.dtype,
            "pinned" if in_arena else "pageable",
            NO_OPTIONS if request.cpu_only else request.options,
            request.cpu_only, self._find_residents(request),
        )  # fmt: skip
