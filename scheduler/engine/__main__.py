"""The engine process: computes products for the service.

The main thread reads the work socket and computes short products itself. Each device has a thread
for longer ones. Another thread reads the control socket, so that pings are answered and products
cancelled while some run. The process ends when a socket closes: no engine outlives its service.
"""

import argparse
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from wavetrim.cpu.threads import count_default_threads
from wavetrim.kernels.device import explain_no_devices, select_devices
from wavetrim.scheduler.calibration.cpu import open_profiles
from wavetrim.scheduler.engine.arena import MappedSlabs, drop_slab
from wavetrim.scheduler.engine.b_fetcher import BFetcher
from wavetrim.scheduler.engine.channel import Channel, ProgressReport, RowsReport
from wavetrim.scheduler.engine.conversation import Conversation, prepare_process
from wavetrim.scheduler.engine.device_threads import DeviceThreads
from wavetrim.scheduler.engine.messages import POISONED_EXIT, STALLED_EXIT, RunRequest
from wavetrim.scheduler.engine.readings import GpuReadings
from wavetrim.scheduler.engine.run import describe_failure, run_request
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import dump_profile

logger = logging.getLogger("wavetrim.scheduler.engine")


class Worker:
    """Computes the products that the service asks for.

    Args:
        service: The conversation with the service.
        executor: Runs plans.
        profiles: Profiles of this machine.
        slabs: Memory shared with the service.
        no_gpu_reason: Why there is no GPU; None if there is one.
    """

    def __init__(
        self,
        service: Conversation,
        executor: Executor,
        profiles: ProfileProvider,
        slabs: MappedSlabs,
        *,
        no_gpu_reason: str | None,
    ) -> None:
        self._no_gpu_reason = no_gpu_reason
        self._service = service
        self._executor = executor
        self._profiles = profiles
        self._slabs = slabs
        self._plans = PlanCache()
        self._threads = DeviceThreads(len(executor.devices), self._plans, slabs)
        self._fetcher = BFetcher(executor.residents, self._plans)

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
        self._threads.close()

    def _take(self, message: Mapping[str, Any], files: list[int]) -> None:
        match message["type"]:
            case "run":
                self._run(message)
            case "slab":
                self._slabs.add(message["slab"], files[0], message["size_bytes"])
            case "drop":
                drop_slab(self._slabs, message["slab"], self._service.send)
            case "forget":
                self._executor.residents.forget(message["matrix"])

    def _run(self, message: Mapping[str, Any]) -> None:
        try:
            request = RunRequest.from_message(message)
            plan = self._threads.find_long(request, self._find_profile)
        except Exception as error:  # an error is an answer, and does not end the engine
            self._end(message["job"], describe_failure(error))
            return
        if plan is None:
            self._compute(request)
            return
        self._threads.submit(plan.device_set, partial(self._begin, request, plan))

    def _begin(self, request: RunRequest, plan: Plan) -> None:
        """Compute a product in a device's thread; those sent before it there have ended."""
        device_set, seconds = (
            sorted(plan.device_set),
            request.products * plan.predicted.total_seconds,
        )
        self._service.send(
            {"type": "begun", "job": request.job, "lane": device_set, "seconds": seconds}
        )
        self._compute(request)

    def _compute(self, request: RunRequest) -> None:
        try:
            event = self._multiply(request)
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

    def _find_profile(self, request: RunRequest) -> MachineProfile:
        return self._profiles.find("cpu" if request.cpu_only else None)

    def _multiply(self, request: RunRequest) -> dict[str, Any]:
        job = request.job

        def tell_plan(plan: Mapping[str, Any]) -> None:
            self._service.send({"type": "planned", "job": job, "plan": plan})

        def tell_changes() -> None:
            self._service.send({"type": "again", "job": job})

        return run_request(
            request,
            self._executor,
            self._find_profile(request),
            slabs=self._slabs,
            plans=self._plans,
            fetcher=self._fetcher,
            planned=tell_plan if request.reports else None,
            progress=ProgressReport(self._service.send, job) if request.reports else None,
            final=RowsReport(self._service.send, job, request.row_step)
            if request.row_step
            else None,
            changes=tell_changes if request.row_step else None,
            cancelled=lambda: self._service.is_cancelled(job),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the engine process; returns its exit status."""
    options = _parse_arguments(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    prepare_process()
    if options.profile_dir is not None and options.profile_dir.parent.is_dir():
        try:
            options.profile_dir.mkdir(exist_ok=True)
        except OSError as error:
            logger.warning("no runs are kept: %s cannot be made: %s", options.profile_dir, error)
    work, control = (Channel(socket.socket(fileno=fd)) for fd in options.fds)
    executor = Executor(
        cache_dir=options.cache_dir,
        devices=select_devices(options.device),
        cpu_threads=options.cpu_threads or count_default_threads(),
        gpu_memory_bytes=options.gpu_memory_bytes,
        watchdog=Watchdog(options.stall_seconds, _end_stalled),
    )
    slabs = MappedSlabs(
        device_index=executor.devices[0].index if executor.devices else None,
        on_locked=lambda slab: work.send({"type": "locked", "slab": slab}),
    )
    with executor:
        executor.pool.prepare()
        profiles = open_profiles(executor, options.profile_dir)
        readings = GpuReadings(executor.devices)
        readings.start()

        def describe() -> dict[str, Any]:
            told = {"corrections": profiles.list_corrections()}
            if not executor.devices:
                return told
            return {**told, **readings.describe(), "residents": executor.residents.describe()}

        service = Conversation(work, control, describe)
        reason = None if executor.devices else explain_no_devices(options.device)
        Worker(service, executor, profiles, slabs, no_gpu_reason=reason).serve()
        slabs.close()
    return 0


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="wavetrim.scheduler.engine", description=__doc__)
    parser.add_argument(
        "--fds", type=int, nargs=2, required=True, help="descriptors of the sockets: work, control"
    )
    parser.add_argument("--cache-dir", type=Path, required=True, help="folder of compiled kernels")
    parser.add_argument("--profile-dir", type=Path, help="folder of stored calibrations")
    parser.add_argument("--gpu-memory-bytes", type=int, help="GPU memory to stay within")
    parser.add_argument(
        "--stall-seconds",
        type=float,
        default=60.0,
        help="end the process after this time without progress of the GPU",
    )
    parser.add_argument("--cpu-threads", type=int, help="threads of the CPU path")
    parser.add_argument("--device", help='"none", or indices such as "0,1"; all GPUs if left out')
    return parser.parse_args(arguments)


def _end_stalled(seconds: float) -> None:
    """End the process: a thread that waits for the GPU cannot end."""
    logger.error("the GPU has made no progress for %.0f s; the engine ends", seconds)
    os._exit(STALLED_EXIT)


if __name__ == "__main__":
    sys.exit(main())
