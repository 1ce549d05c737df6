"""Products so small that the way to the engine and back takes longer than computing them.

The event loop's thread computes them itself, and serves no other request meanwhile. So it takes
only products that are planned on one CPU thread, for less time than it takes to read a request.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_dtype, round_factor
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.description import describe_choice
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.service.engine.engine import Engine
from wavetrim.service.storage.memory.room import Room

INLINE_SECONDS: Final = 1e-4
"""Longest predicted time of an inline product; chosen, since other requests wait meanwhile."""


class InlineProducts:
    """Computes the smallest products in the calling thread.

    Args:
        engine: Has the profile that plans are made from; computes all other products.
        cache_dir: Folder of compiled code.
    """

    def __init__(self, engine: Engine, cache_dir: Path) -> None:
        self._engine = engine
        self._plans = PlanCache()
        self._executor = Executor(cache_dir=cache_dir, cpu_threads=1)

    def compute(self, request: RunRequest, rooms: Sequence[Room]) -> dict[str, Any] | None:
        """Compute a product, if it is small enough.

        Args:
            request: The product.
            rooms: The memory that it lies in.

        Returns:
            The message of success, as the engine's, with `queue_seconds`; None for a product that
            the engine computes.
        """
        plan = self._find_plan(request) if _is_plain(request) else None
        if plan is None:
            return None
        a, b, out = (_find_matrix(one, rooms) for one in (request.a, request.b, request.out))
        if a is None or b is None or out is None:
            return None
        alpha = round_factor(request.alpha, out.dtype)
        timings = self._executor.run(plan, a, b, out, alpha=alpha)
        return {
            "type": "succeeded",
            "plan": describe_choice(plan),
            "timings": timings.as_dict(),
            "verification": None,
            "queue_seconds": 0.0,
        }

    def _find_plan(self, request: RunRequest) -> Plan | None:
        """The plan of a small enough product; None for others, and before the engine runs."""
        # Others are not even planned here: a plan for a new shape takes some time.
        may_be = request.is_small and request.needs_one_thread
        if self._engine.cpu_threads is None or not may_be:
            return None
        out = request.out
        memory: Memory = "pinned" if self._engine.devices else "pageable"
        problem = GemmProblem(out.rows, out.columns, request.a.columns, out.dtype, memory)
        plan = self._plans.choose(problem, self._engine.profiles.find())
        is_brief = plan.predicted.total_seconds <= INLINE_SECONDS
        return plan if plan.f == out.rows and is_brief else None


def _is_plain(request: RunRequest) -> bool:
    """Whether a product is A·B times a factor, without conversions, options or a check."""
    dtype = request.out.dtype
    same = request.a.dtype == dtype == request.b.dtype
    plain = request.c is None and request.options == NO_OPTIONS
    return same and plain and not request.verify and not request.is_empty


def _find_matrix(operand: Operand, rooms: Sequence[Room]) -> NDArray[Any] | None:
    """The matrix of an operand in the arena; None for one in a file."""
    if isinstance(operand.slab, str):
        return None
    for room in rooms:
        offset_bytes = operand.offset_bytes - room.offset_bytes
        if room.place == operand.slab and 0 <= offset_bytes < len(room.view):
            break
    else:
        return None
    shape, dtype = (operand.rows, operand.columns), find_dtype(operand.dtype)
    order: Any = "F" if operand.fortran_order else "C"
    if operand.strides_bytes is None:
        return np.ndarray(shape, dtype, room.view, offset_bytes, order=order)
    return np.ndarray(shape, dtype, room.view, offset_bytes, operand.strides_bytes)
