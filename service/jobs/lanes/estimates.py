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
from wavetrim.scheduler.planning.placing import Offer, Traffic
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.service.engine.cluster import ClusterNode
from wavetrim.service.engine.fleet import Fleet

_CAPACITY: Final = 1024
"""Shapes that are kept, of each engine."""

_KEPT_SECONDS: Final = 10.0
"""How long they are; chosen: plans change as runs correct them."""

_MEMORY_SHARE: Final = 0.5
"""Largest share of a node's memory for B; chosen, so that two blocks fit, too."""

_Shape = tuple[int, int, int, str, PlanOptions]


class Estimates:
    """The times of engines by shape. Safe to use from several threads.

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
        if here is None or here.seconds is None:
            return here is not None  # if this machine cannot plan it, `find` asks no node
        nodes = self._list_able(request)
        return all(self._find_kept(node.profile, shape) is not None for node in nodes)

    def find(self, request: RunRequest) -> tuple[Offer, ...]:
        """The offer of each engine that may compute a product, this machine's first."""
        here = self._fleet.here
        profile = self._find_profile_here(request)
        seconds = self._find_seconds(request, profile, has_gpu=bool(here.devices))
        if seconds is None:
            return (Offer(here.id, 0.0),)  # the engine says what is wrong
        offers = [Offer(here.id, seconds)]
        for node in self._list_able(request):
            seconds = self._find_seconds(request, node.profile, has_gpu=bool(node.devices))
            if seconds is None:
                continue
            traffic = _find_traffic(request)
            if request.b_key in node.resident:
                traffic = replace(traffic, b_bytes=0)
            offers.append(Offer(node.id, seconds, node.network, traffic, node.factor))
        return tuple(offers)

    def _find_profile_here(self, request: RunRequest) -> MachineProfile:
        return self._fleet.here.profiles.find("cpu" if request.cpu_only else None)

    def _list_able(self, request: RunRequest) -> list[ClusterNode]:
        """The nodes that may compute a product; none if its options name kernel or F."""
        named = request.options not in (NO_OPTIONS, PlanOptions(accuracy=request.options.accuracy))
        # Blocks of rows are sent: each would read all of a column-major file.
        by_columns = isinstance(request.a.slab, str) and request.a.fortran_order
        if named or request.cpu_only or by_columns:
            return []
        b_bytes = _find_traffic(request).b_bytes
        return [one for one in self._fleet.nodes if b_bytes <= _MEMORY_SHARE * one.memory_bytes]

    def _find_seconds(
        self, request: RunRequest, profile: MachineProfile, *, has_gpu: bool
    ) -> float | None:
        """The time of an engine; None if it cannot meet the product's options."""
        shape = _find_shape(request)
        kept = self._find_kept(profile, shape)
        if kept is not None:
            return kept.seconds
        m, n, k, dtype, options = shape
        memory: Memory = "pinned" if has_gpu else "pageable"
        seconds: float | None = None
        with suppress(FieldError):
            problem = GemmProblem(m, n, k, dtype, memory, may_be_empty=True)
            seconds = self._plans.choose(problem, profile, options).predicted.total_seconds
        self._kept.keep((id(profile), shape), _Kept(profile, seconds, time.monotonic()))
        return seconds

    def _find_kept(self, profile: MachineProfile, shape: _Shape) -> "_Kept | None":
        # What is kept holds its profile, so no other profile can have the same id.
        kept = self._kept.find((id(profile), shape))
        if kept is None or time.monotonic() - kept.made_at > _KEPT_SECONDS:
            return None
        return kept


@dataclass(frozen=True, slots=True)
class _Kept:
    """Predicted seconds, the profile that they are from, and when; None if no plan can be made."""

    profile: MachineProfile
    seconds: float | None
    made_at: float


def _find_shape(request: RunRequest) -> _Shape:
    out = request.out
    return out.rows, out.columns, request.a.columns, out.dtype, request.options


def _find_traffic(request: RunRequest) -> Traffic:
    """The bytes that a product sends to a node and back."""
    item_bytes = GemmProblem(1, 1, 1, request.out.dtype).item_bytes
    m, n, k = request.out.rows, request.out.columns, request.a.columns
    in_columns = k + (0 if request.c is None else n)
    return Traffic(k * n * item_bytes, m * in_columns * item_bytes, m * n * item_bytes)
