"""A thread for each device, so that a long product does not delay those of other devices.

The main thread computes short products itself, and without a GPU all of them. A longer one is
computed by the thread of its first GPU, or of the CPU, so that the main thread can read requests
for other devices.
"""

from collections.abc import Callable
from typing import Final

from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.device_sets import CPU, DeviceSet
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile

AWAITED_SECONDS: Final = 5e-3
"""Longest predicted time that the main thread computes. Chosen: another thread costs 0.1 ms."""

_CPU_ALONE: Final = frozenset({CPU})


class DeviceThreads:
    """A thread for each device."""

    def __init__(self, gpus: int, plans: PlanCache, slabs: MappedSlabs) -> None:
        self._gpus = gpus
        self._plans = plans
        self._slabs = slabs
        self._threads = {
            device: CallThreads(1, f"device_set-{'cpu' if device == CPU else device}")
            for device in (CPU, *range(gpus))
        }

    def find_long(
        self, request: RunRequest, find_profile: Callable[[RunRequest], MachineProfile]
    ) -> Plan | None:
        """The approximate plan of a product for a device's thread; None for the main thread.

        A stack's plan is that of one product.
        """
        if not self._gpus or (request.is_small and request.device_set in (None, _CPU_ALONE)):
            return None
        options = NO_OPTIONS if request.cpu_only else request.options
        try:
            plan = self._plans.choose(
                self._describe(request), find_profile(request), options, request.device_set
            )
        except FieldError:
            return None  # computing it raises the same error
        if request.products * plan.predicted.total_seconds > AWAITED_SECONDS:
            return plan
        # Other GPUs may have work at the same time.
        return plan if request.device_set is not None and plan.gpu_rows and self._gpus > 1 else None

    def submit(self, device_set: DeviceSet, compute: Callable[[], None]) -> None:
        """Let the thread of its first device compute a product."""
        first = min(device_set - {CPU}, default=CPU)
        self._threads[first].submit(compute)

    def close(self) -> None:
        """End the threads, once their products are done."""
        for thread in self._threads.values():
            thread.close()

    def _describe(self, request: RunRequest) -> GemmProblem:
        """The product, as far as the request tells: its operands are not opened."""
        operands = request.a, request.b, request.out
        memory: Memory = "pinned" if all(map(self._is_locked, operands)) else "pageable"
        out = request.out
        return GemmProblem(
            out.rows, out.columns, request.a.columns, out.dtype, memory, may_be_empty=True
        )

    def _is_locked(self, operand: Operand) -> bool:
        return isinstance(operand.slab, int) and self._slabs.is_locked(operand.slab)
