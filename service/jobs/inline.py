"""Products so small that the way to the engine and back takes longer than computing them.

The event loop's thread computes them itself, and serves no other request meanwhile. So it takes
only products that are planned on one CPU thread, for less time than it takes to read a request.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.last_used import LastUsed
from wavetrim.native.element_types import find_dtype, round_factor
from wavetrim.scheduler.engine.answer import make_success
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.small_stacks import compute_small_stack
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.choice import CAPACITY
from wavetrim.scheduler.planning.description import describe_choice, describe_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.product import EngineProduct
from wavetrim.service.jobs.plans import Plans
from wavetrim.service.storage.memory.extent import Extent

INLINE_SECONDS: Final = 1e-4
"""Longest predicted time of an inline product; chosen, since other requests wait meanwhile."""


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
