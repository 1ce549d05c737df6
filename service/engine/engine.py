"""The engine of this machine as the service sees it: its devices, and what plans are made from."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.engine.messages import Message
from wavetrim.scheduler.profile.corrections import Factor
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import read_profile
from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.settings import Settings

logger = logging.getLogger(__name__)

_STARTS_WITH_DEVICES: Final = 3
"""Failed starts in a row after which the engine is started without its GPUs; chosen."""


class Engine(Supervisor):
    """Starts, watches and restarts the engine process, and hands it products.

    Args:
        settings: Where the kernels are cached, which devices are used, and how much of them.

    Attributes:
        id: Its name among the engines.
        devices: The GPUs that it reported at its last start.
        cpu_threads: Threads of its CPU path; None before its first start.
        profiles: What products are planned with; before the first start, this machine's CPU.
        readings: Memory, clocks, temperature and power of its GPUs, as last reported.
        residents: What stays on each GPU (`ResidentOperands.describe`), as last reported.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__("wavetrim.scheduler.engine", name="the engine")
        self.id = "here"
        self._settings = settings
        self.devices: tuple[DeviceInfo, ...] = ()
        self.cpu_threads: int | None = None
        self.profiles = ProfileProvider(
            directory=settings.profile_dir,
            devices=(),
            cpu_threads=settings.count_threads(),
        )
        self.readings: Sequence[Message] = ()
        self.residents: Sequence[Message] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._without_devices = False
        # First the GPUs that the settings name, later the most that an engine has had.
        named = (settings.devices or "none").split(",")
        self._most_devices = len([name for name in named if name != "none"])

    @property
    def degraded(self) -> str | None:
        """Which GPUs the engine goes on without, in words; None if it has all."""
        if self._without_devices and self._settings.devices != "none":
            failed = f"{_STARTS_WITH_DEVICES} starts with them have failed"
            return f"the engine runs without GPUs: {failed}"
        if len(self.devices) < self._most_devices:
            return f"the engine has {len(self.devices)} of {self._most_devices} GPUs"
        return None

    @property
    def no_gpu_reason(self) -> str | None:
        """Why the engine has no GPU; None if it has one, or before its first start."""
        if self._without_devices:
            return self.degraded
        return self._hello.get("no_gpu_reason")

    def list_arguments(self, failed_starts: int, /) -> list[str]:
        """The engine's command line; without its GPUs when it has not started with them."""
        self._without_devices = failed_starts >= _STARTS_WITH_DEVICES
        if self._without_devices:
            logger.error("the engine does not start with its GPUs: it is started without them")
        options = self._settings.make_options()
        if self._without_devices:
            options = replace(options, devices="none")
        return ["--options", options.as_json()]

    def learn(self, hello: Message, /) -> None:
        """Keep what the process says of the machine: from now on plans are made for it."""
        self._loop = asyncio.get_running_loop()
        profile = read_profile(hello["profile"])
        self.devices = tuple(
            DeviceInfo(**{**info, "compute_capability": tuple(info["compute_capability"])})
            for info in hello["devices"]
        )
        self.cpu_threads = hello["cpu_threads"]
        self._most_devices = max(self._most_devices, len(self.devices))
        self.profiles = ProfileProvider(
            directory=self._settings.profile_dir,
            devices=self.devices,
            cpu_threads=hello["cpu_threads"],
            measure_cpu=lambda: profile.cpu,
        )
        logger.info("plans are made for %s", profile.device)

    def take_other(self, message: Message, /) -> None:
        """Keep what it tells of its GPUs, and of its runs."""
        corrections = message.get("corrections", {}).items()
        self.profiles.find().corrections.adopt({kind: Factor(*one) for kind, one in corrections})
        self.readings = message.get("gpus", ())
        self.residents = message.get("residents", ())

    def forget(self) -> None:
        """The process is gone, with its readings and what stayed on its GPUs."""
        self.readings = self.residents = ()

    def forget_matrix(self, matrix_id: str) -> None:
        """A matrix was deleted: GPUs that keep it let go of it. Thread-safe."""
        if self.devices and self._loop is not None:
            message = {"type": "forget", "matrix": matrix_id}
            self._loop.call_soon_threadsafe(self.send, message)
