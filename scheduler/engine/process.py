"""What every process that computes for a service has: its devices, and how it begins and ends."""

import ctypes
import faulthandler
import logging
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from wavetrim.kernels.device import select_devices
from wavetrim.scheduler.calibration.cpu import open_profiles
from wavetrim.scheduler.engine.messages import STALLED_EXIT
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.options import MachineOptions
from wavetrim.scheduler.profile.provider import ProfileProvider

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1


def open_devices(options: MachineOptions) -> tuple[Executor, ProfileProvider]:
    """The devices that an engine may use, and their profiles."""
    executor = Executor(
        cache_dir=options.kernel_cache_dir,
        devices=select_devices(options.devices),
        cpu_threads=options.cpu_threads,
        gpu_memory_bytes=options.gpu_memory_bytes,
        watchdog=Watchdog(options.stall_seconds, _end_stalled),
    )
    executor.pool.prepare()
    return executor, open_profiles(executor, options.profile_dir, nullcontext())


def _end_stalled(seconds: float) -> None:
    """End the process: a thread that waits for the GPU cannot end."""
    logger.error("the GPU has made no progress for %.0f s; the engine ends", seconds)
    os._exit(STALLED_EXIT)


def prepare_process() -> None:
    """Let this process survive Ctrl-C in the service's terminal, but not the service's end."""
    faulthandler.enable()
    # The service decides when the engine ends. Ctrl-C in its terminal, or SIGTERM to the whole
    # control group, must not end a running product.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The end of a socket ends the process; this does so even if no thread reads it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        # If memory runs out, the system should end the engine, which the service starts again.
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    except OSError:
        logger.debug("the out-of-memory score cannot be changed here")
