"""How long each engine would take for a product: found once for each shape, in a thread.

A plan for a new shape takes milliseconds, and each node has its own profile.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from wavetrim.kernels.last_used import LastUsed
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.placing import Offer, SampledCurve, Traffic, sample_curve
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.service.engine.cluster import ClusterNode
from wavetrim.service.engine.fleet import Fleet

_CAPACITY: Final = 1024
"""Curves that are kept."""

_KEPT_SECONDS: Final = 10.0
"""How long a curve is used again; chosen: plans change as runs correct them."""

_MEMORY_SHARE: Final = 0.5
"""Largest share of a node's memory for B; chosen, so that two blocks fit, too."""

_UNKNOWN: Final = SampledCurve(((1, 0.0),))

_Shape = tuple[int, int, int, str, PlanOptions]


class Estimates:
    """The curves of engines by shape. Safe to use from several threads.

    Args:
        fleet: The engines.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._plans = PlanCache()
        self._kept = LastUsed[tuple[int, _Shape], _Kept](_CAPACITY)

    def has_all(self, request: RunRequest) -> bool:
        """Whether `find` answers at once."""
        shape = _find_shape(request)
        here = self._find_kept(self._find_profile_here(request), shape)
        if here is None or here.curve is None:
            return here is not None  # if this machine cannot plan it, `find` asks no node
        nodes = self._list_able(request)
        return all(self._find_kept(node.profile, shape) is not None for node in nodes)

    def find(self, request: RunRequest) -> tuple[Offer, ...]:
        """The offer of each engine that may compute a product, this machine's first."""
        here = self._fleet.here
        profile = self._find_profile_here(request)
        curve = self._find_curve(request, profile, has_gpu=bool(here.devices))
        if curve is None:
            return (Offer(here.id, _UNKNOWN),)  # the engine says what is wrong
        offers = [Offer(here.id, curve)]
        for node in self._list_able(request):
            computing = self._find_curve(request, node.profile, has_gpu=bool(node.devices))
            if computing is None:
                continue
            traffic = _find_traffic(request)
            if request.b_key in node.resident:
                traffic = replace(traffic, b_bytes=0)
            offers.append(Offer(node.id, computing, node.network, traffic, node.factor))
        return tuple(offers)

    def _find_profile_here(self, request: RunRequest) -> MachineProfile:
        return self._fleet.here.profiles.find("cpu" if request.cpu_only else None)

    def _list_able(self, request: RunRequest) -> list[ClusterNode]:
        """The nodes that may compute a product; none if its options name kernel or F."""
        named = request.options not in (NO_OPTIONS, PlanOptions(accuracy=request.options.accuracy))
        if named or request.cpu_only or not request.can_be_cut:
            return []
        b_bytes = _find_traffic(request).b_bytes
        return [one for one in self._fleet.nodes if b_bytes <= _MEMORY_SHARE * one.memory_bytes]

    def _find_curve(
        self, request: RunRequest, profile: MachineProfile, *, has_gpu: bool
    ) -> SampledCurve | None:
        """The curve of an engine; None if it cannot meet the product's options."""
        shape = _find_shape(request)
        kept = self._find_kept(profile, shape)
        if kept is not None:
            return kept.curve
        m, n, k, dtype, options = shape
        memory: Memory = "pinned" if has_gpu else "pageable"
        if options.f != "auto":
            options = NO_OPTIONS  # F is the whole product's

        def find_seconds(rows: int) -> float:
            problem = GemmProblem(rows, n, k, dtype, memory, may_be_empty=True)
            return self._plans.choose(problem, profile, options).predicted.total_seconds

        curve: SampledCurve | None = None
        with suppress(FieldError):
            curve = sample_curve(m, find_seconds)
        self._kept.keep((id(profile), shape), _Kept(profile, curve, time.monotonic()))
        return curve

    def _find_kept(self, profile: MachineProfile, shape: _Shape) -> "_Kept | None":
        # The kept curve holds its profile, so no other profile can have the same id.
        kept = self._kept.find((id(profile), shape))
        if kept is None or time.monotonic() - kept.made_at > _KEPT_SECONDS:
            return None
        return kept


@dataclass(frozen=True, slots=True)
class _Kept:
    """A curve, what it was made from, and when; None if no plan can be made."""

    profile: MachineProfile
    curve: SampledCurve | None
    made_at: float


def _find_shape(request: RunRequest) -> _Shape:
    out = request.out
    return out.rows, out.columns, request.a.columns, out.dtype, request.options


def _find_traffic(request: RunRequest) -> Traffic:
    """The bytes that a product sends to a node and back."""
    item_bytes = GemmProblem(1, 1, 1, request.out.dtype).item_bytes
    n, k = request.out.columns, request.a.columns
    in_columns = k + (0 if request.c is None else n)
    return Traffic(k * n * item_bytes, in_columns * item_bytes, n * item_bytes)
