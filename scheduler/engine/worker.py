"""The engine's work: which thread computes a product, and what the service is told of it."""

import os
from dataclasses import asdict, replace
from typing import Any, Final

from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.engine.answer import describe_failure
from wavetrim.scheduler.engine.conversation import Conversation
from wavetrim.scheduler.engine.messages import POISONED_EXIT, Message, RunRequest
from wavetrim.scheduler.engine.run import Runner
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import dump_profile

AWAITED_SECONDS: Final = 5e-3
"""Longest predicted time that the main thread computes. Chosen: another thread costs 0.1 ms."""

_CPU_ALONE: Final = frozenset({CPU})


class Worker:
    """Computes the products that the service asks for.

    `no_gpu_reason` says why there is no GPU; None if there is one.
    """

    def __init__(
        self,
        service: Conversation,
        executor: Executor,
        profiles: ProfileProvider,
        *,
        no_gpu_reason: str | None,
    ) -> None:
        self._no_gpu_reason = no_gpu_reason
        self._service, self._executor, self._profiles = service, executor, profiles
        self._runner = Runner(executor, profiles.find)
        self._gpus = len(executor.devices)
        self._threads = {
            device: CallThreads(1, f"device_set-{'cpu' if device == CPU else device}")
            for device in (CPU, *range(self._gpus))
        }

    def serve(self) -> None:
        """Send `ready`, then work until the service sends `shutdown`."""
        self._service.send(
            {
                "type": "ready",
                "pid": os.getpid(),
                "devices": [asdict(device) for device in self._executor.devices],
                "no_gpu_reason": self._no_gpu_reason,
                "cpu_threads": self._executor.pool.threads,
                # The service makes the other GPUs' profiles itself.
                "profile": dump_profile(replace(self._profiles.find(), beside=())),
            }
        )
        self._service.serve(self._take)
        for thread in self._threads.values():  # once their products are done
            thread.close()

    def _take(self, message: Message) -> None:
        match message["type"]:
            case "run":
                self._run(message)
            case "forget":
                self._executor.gpus.forget(message["matrix"])

    def _run(self, message: Message) -> None:
        try:
            request = RunRequest.from_message(message)
            plan = self._find_long(request)
        except Exception as error:  # an error is an answer, and does not end the engine
            self._end(message["job"], describe_failure(error))
            return
        if plan is None:
            self._compute(request)
            return
        first = min(plan.device_set - {CPU}, default=CPU)
        self._threads[first].submit(self._begin, request, plan)

    def _find_long(self, request: RunRequest) -> Plan | None:
        """The approximate plan of a product for a device's thread; None for the main thread.

        A stack's plan is that of one product.
        """
        if not self._gpus or (request.is_small and request.device_set in (None, _CPU_ALONE)):
            return None
        try:
            plan = self._runner.choose(self._describe(request), request)
        except FieldError:
            return None  # computing it raises the same error
        if request.products * plan.predicted.total_seconds > AWAITED_SECONDS:
            return plan
        # Other GPUs may have work at the same time.
        return plan if request.device_set is not None and plan.gpu_rows and self._gpus > 1 else None

    def _describe(self, request: RunRequest) -> GemmProblem:
        """The product, as far as the request tells: its operands are not opened."""
        out = request.out
        is_locked, used = self._service.slabs.is_locked, (request.a.slab, request.b.slab, out.slab)
        locked = all(isinstance(slab, int) and is_locked(slab) for slab in used)
        memory: Memory = "pinned" if locked else "pageable"
        return GemmProblem(
            out.rows, out.columns, request.a.columns, out.dtype, memory, may_be_empty=True
        )

    def _begin(self, request: RunRequest, plan: Plan) -> None:
        """Compute a product in a device's thread; those sent before it there have ended."""
        device_set = sorted(plan.device_set)
        seconds = request.products * plan.predicted.total_seconds
        self._service.send(
            {"type": "begun", "job": request.job, "device_set": device_set, "seconds": seconds}
        )
        self._compute(request)

    def _compute(self, request: RunRequest) -> None:
        try:
            hooks = self._service.open_hooks(request)
            event = self._runner.run(request, slabs=self._service.slabs, hooks=hooks)
        except Exception as error:
            event = describe_failure(error)
        self._end(request.job, event)

    def _end(self, job: str, event: dict[str, Any]) -> None:
        """Answer a run, whose memory is no longer in use."""
        event["job"] = job
        self._service.end(event)
        if event.get("poisoned"):
            # Destroying a lost CUDA context may hang.
            os._exit(POISONED_EXIT)
