"""The engine process: takes one run after the other from the service and executes it.

The main thread runs products. A second thread reads the socket, so that pings are answered and a
cancel is heard while a product runs. The process ends when the socket closes: whatever ends the
service, no engine is left behind.
"""

import argparse
import ctypes
import faulthandler
import logging
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import select_devices
from wavetrim.scheduler.channel import Channel, ProgressReport
from wavetrim.scheduler.cpu_model import CpuModel
from wavetrim.scheduler.cpu_survey import measure_cpu_briefly
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.messages import MessageError, RunRequest
from wavetrim.scheduler.profile import find_profile
from wavetrim.scheduler.run import describe_failure, run_request

logger = logging.getLogger("wavetrim.scheduler.worker")

POISONED_EXIT: Final = 70
"""Exit status after a CUDA error that leaves the context unusable."""

_PR_SET_PDEATHSIG: Final = 1


class Worker:
    """Runs the products that come through a channel."""

    def __init__(self, channel: Channel, executor: Executor, profile_dir: Path | None) -> None:
        self._channel = channel
        self._executor = executor
        self._profile_dir = profile_dir
        self._runs: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._cancelled: set[str] = set()
        self._stopping = False

    def serve(self) -> None:
        """Say that the engine is ready, then run products until the service says shutdown."""
        self._channel.send(
            {
                "type": "ready",
                "pid": os.getpid(),
                "devices": [asdict(device) for device in self._executor.devices],
                "cpu_threads": self._executor.pool.threads,
                "profile": self._find_profile(cpu_only=False).as_dict(),
            }
        )
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        while (message := self._runs.get()) is not None:
            self._run(message)

    def _listen(self) -> None:
        while True:
            try:
                self._take(self._channel.receive())
            except (MessageError, KeyError):
                logger.exception("a message from the service could not be read")

    def _take(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "ping":
                self._channel.send({"type": "pong"})
            case "run":
                self._runs.put(message)
            case "cancel":
                self._cancelled.add(message["job"])
            case "shutdown":
                self._stopping = True
                self._runs.put(None)

    def _run(self, message: Mapping[str, Any]) -> None:
        job = message["job"]
        try:
            event = self._multiply(RunRequest.from_message(message))
        except Exception as error:  # whatever goes wrong is an answer, not the engine's end
            event = describe_failure(error)
        self._channel.send({**event, "job": job})
        self._cancelled.discard(job)
        if event.get("poisoned"):
            # Tearing down a broken CUDA context may hang.
            os._exit(POISONED_EXIT)

    def _multiply(self, request: RunRequest) -> dict[str, Any]:
        job = request.job
        return run_request(
            request,
            self._executor,
            self._find_profile(cpu_only=request.cpu_only),
            planned=lambda plan: self._channel.send({"type": "planned", "job": job, "plan": plan}),
            progress=ProgressReport(self._channel, job),
            cancelled=lambda: self._stopping or job in self._cancelled,
        )

    def _find_profile(self, *, cpu_only: bool) -> MachineProfile:
        # Looked up for each run: a calibration made meanwhile is used from the next one on.
        profile = find_profile(
            "cpu" if cpu_only else None,
            devices=self._executor.devices,
            directory=self._profile_dir,
            cpu_threads=self._executor.pool.threads,
        )
        return profile if profile.measured_at is not None else replace(profile, cpu=self._cpu)

    @cached_property
    def _cpu(self) -> CpuModel:
        # Measured when it is first needed: a calibrated machine starts without it.
        return measure_cpu_briefly(self._executor.pool)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the engine process; returns its exit status."""
    options = _parse_arguments(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    _prepare_process()
    channel = Channel(socket.socket(fileno=options.fd))
    executor = Executor(
        cache_dir=options.cache_dir,
        devices=select_devices(options.device),
        cpu_threads=options.cpu_threads or usable_cores(),
        gpu_memory_bytes=options.gpu_memory_bytes,
    )
    with executor:
        executor.pool.prepare()
        Worker(channel, executor, options.profile_dir).serve()
    return 0


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="wavetrim.scheduler.worker", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="file descriptor of the socket")
    parser.add_argument("--cache-dir", type=Path, required=True, help="folder of compiled kernels")
    parser.add_argument("--profile-dir", type=Path, help="folder of stored calibrations")
    parser.add_argument("--gpu-memory-bytes", type=int, help="GPU memory to stay within")
    parser.add_argument("--cpu-threads", type=int, help="threads of the CPU path")
    parser.add_argument("--device", help='"none", or indices such as "0,1"; all GPUs if left out')
    return parser.parse_args(arguments)


def _prepare_process() -> None:
    faulthandler.enable()
    # The service decides when the engine ends: Ctrl-C in its terminal, or a SIGTERM to the whole
    # control group, must let the running product finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The closing socket ends the process; this ends it as well when the listener is stuck.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        # If memory runs out, the kernel should take the engine, which is started again.
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    except OSError:
        logger.debug("the out-of-memory score cannot be changed here")


if __name__ == "__main__":
    sys.exit(main())
