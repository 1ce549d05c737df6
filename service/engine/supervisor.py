"""The engine as the service sees it: a process that is watched, and started again when it ends."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.engine.messages import FINAL_TYPES
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.service.engine.process import EngineProcess, list_arguments
from wavetrim.service.settings import Settings

logger = logging.getLogger(__name__)

_FIRST_DELAY_SECONDS: Final = 0.1
_MAX_DELAY_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0
"""An engine that lived this long, or finished a product, starts the back-off anew."""

_STARTS_WITH_DEVICES: Final = 3
"""After so many failed starts in a row the engine is started without its GPUs."""

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Watch:
    """How patiently the engine is watched, in seconds.

    Attributes:
        start_seconds: For the process to say that it is ready.
        ping_seconds: Between two pings.
        silence_seconds: Without any message before the process counts as hanging.
        stop_seconds: For the process to end when it is told to.
    """

    start_seconds: float = 120.0
    ping_seconds: float = 2.0
    silence_seconds: float = 30.0
    stop_seconds: float = 5.0


class Engine:
    """Starts, watches and restarts the engine process, and hands it products.

    To be used from one event loop.

    Args:
        settings: Where the kernels are cached, which devices are used, and how much of them.
        watch: How patiently it is watched.
        on_restart: Called whenever the process is started again.

    Attributes:
        profiles: What products are planned with; before the first start, this machine's CPU.
        on_ready: Called when a process takes runs.
        on_gone: Called when a process is gone, after its runs were told.
        on_slab: Called with "locked" or "dropped" and a slab's id when the process says so.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        watch: Watch | None = None,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._watch = watch or Watch()
        self._on_restart = on_restart
        self.on_ready: Callable[[], None] = lambda: None
        self.on_gone: Callable[[], None] = lambda: None
        self.on_slab: Callable[[str, int], None] = lambda _kind, _slab: None
        self._process: EngineProcess | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._gone = asyncio.Event()
        self._gone.set()
        self._greeted = asyncio.Event()
        self._runs: dict[str, Callable[[Event], None]] = {}
        self._reason: str | None = None
        self._heard = 0.0
        self._proved = False
        self._hello: Event = {}
        self._devices: tuple[DeviceInfo, ...] = ()
        self.profiles = ProfileProvider(
            directory=settings.profile_dir,
            devices=(),
            cpu_threads=settings.cpu_threads or usable_cores(),
        )
        self._without_devices = False
        # Those that were asked for by index; later the most that an engine has had.
        named = (settings.devices or "").split(",")
        self._most_devices = sum(index.isdigit() for index in named)
        self.state = "stopped"
        self.restarts = 0

    @property
    def degraded(self) -> str | None:
        """What the engine lacks while it goes on without it; None if nothing."""
        if self._without_devices and self._settings.devices != "none":
            failed = f"{_STARTS_WITH_DEVICES} starts with them have failed"
            return f"the engine runs without GPUs: {failed}"
        if len(self.devices) < self._most_devices:
            return f"the engine has {len(self.devices)} of {self._most_devices} GPUs"
        return None

    @property
    def pid(self) -> int | None:
        """Process id of the engine; None while there is none."""
        return self._process.pid if self._process else None

    @property
    def ready(self) -> bool:
        """True while the engine takes runs."""
        return self._ready.is_set()

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        """The GPUs that the engine said it uses, the last time it started."""
        return self._devices

    @property
    def cpu_threads(self) -> int | None:
        """Threads of its CPU path; None before its first start."""
        return self._hello.get("cpu_threads")

    async def start(self) -> None:
        """Start the process in the background; `wait_ready` says when it is there."""
        assert self._supervisor is None, "an engine is started once"
        self.state = "starting"
        self._supervisor = asyncio.create_task(self._supervise(), name="engine-supervisor")

    async def wait_ready(self) -> None:
        """Wait until the engine takes runs."""
        await self._ready.wait()

    def start_run(self, message: Event, take: Callable[[Event], None]) -> None:
        """Have one product computed, behind those that were started before.

        Args:
            message: A run message (`RunRequest.as_message`).
            take: Receives the messages about it, in order. The final one is a retryable failure
                of kind "engine" when the process ends before it has answered; that is told once
                the process is gone, since until then it may write to the product's memory.
        """
        assert self._process is not None, "runs are started while the engine is ready"
        self._runs[message["job"]] = take
        self._process.send(message)

    def send(self, message: Event, files: Sequence[int] = ()) -> None:
        """Send a message that is no run; it is handled behind the runs that were started."""
        if self._process is not None:
            self._process.send(message, files)

    def cancel(self, job_id: str) -> None:
        """Ask the engine to stop a run; its final message follows, and may still be success."""
        if self._process is not None:
            self._process.control({"type": "cancel", "job": job_id})

    async def restart(self, reason: str) -> None:
        """Kill the process and wait until it is gone; a new one is started."""
        self._end_process(reason)
        await self._gone.wait()

    async def stop(self) -> None:
        """End the process: in good order when it listens, otherwise by force."""
        if self._supervisor is None:
            return
        self.state = "stopping"
        self._ready.clear()
        self._supervisor.cancel()
        await asyncio.wait([self._supervisor])
        self._supervisor = None
        self.state = "stopped"

    async def _supervise(self) -> None:
        failed_starts = 0
        delay_seconds = _FIRST_DELAY_SECONDS
        while True:
            began = time.monotonic()
            was_ready = await self._live(use_devices=failed_starts < _STARTS_WITH_DEVICES)
            failed_starts = 0 if was_ready else failed_starts + 1
            if self._proved or (was_ready and time.monotonic() - began > _STEADY_SECONDS):
                delay_seconds = _FIRST_DELAY_SECONDS
            self.state = "restarting"
            logger.warning("the engine starts again in %.1f s", delay_seconds)
            await asyncio.sleep(delay_seconds)
            delay_seconds = min(2 * delay_seconds, _MAX_DELAY_SECONDS)
            self.restarts += 1
            self._on_restart()

    async def _live(self, *, use_devices: bool) -> bool:
        """One life of the process, from its start to its end; returns whether it was ready."""
        self._reason = None
        self._proved = was_ready = False
        self._greeted.clear()
        self._without_devices = not use_devices
        if not use_devices:
            logger.error("the engine does not start with its GPUs: it is started without them")
        try:
            arguments = list_arguments(self._settings, use_devices=use_devices)
            process = self._process = await EngineProcess.launch(arguments, self._take)
            self._gone.clear()
        except OSError:
            logger.exception("the engine cannot be started")
            return False
        try:
            was_ready = await self._greet(process)
            if was_ready:
                await self._converse(process)
        except asyncio.CancelledError:
            process.control({"type": "shutdown"})  # the running product stops
            process.send({"type": "shutdown"})
            await process.end(self._watch.stop_seconds)
            self._bury("the service stops")
            raise
        status = await process.end()
        reason = self._reason or _explain_status(status)
        logger.error("the engine (pid %d) ended: %s", process.pid, reason)
        self._bury(reason)
        return was_ready

    async def _greet(self, process: EngineProcess) -> bool:
        """Wait for the process to say that it is ready."""
        closed = asyncio.create_task(process.closed.wait())
        greeted = asyncio.create_task(self._greeted.wait())
        try:
            await asyncio.wait(
                {closed, greeted},
                timeout=self._watch.start_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            closed.cancel()
            greeted.cancel()
        if not self._greeted.is_set():
            if not process.closed.is_set():
                self._reason = f"not ready within {self._watch.start_seconds:g} s"
            return False
        try:
            profile = self._learn(self._hello)
        except ProfileError as error:
            self._reason = f"its profile cannot be read: {error}"
            return False
        self._most_devices = max(self._most_devices, len(self.devices))
        self.state = "ready"
        self._ready.set()
        logger.info("the engine is ready: pid %d, profile of %s", process.pid, profile.device)
        self.on_ready()
        return True

    def _learn(self, hello: Event) -> MachineProfile:
        """Keep what the process says of the machine: plans are made for that from now on."""
        profile = MachineProfile.from_dict(hello["profile"])
        self._devices = tuple(
            DeviceInfo(**{**info, "compute_capability": tuple(info["compute_capability"])})
            for info in hello["devices"]
        )
        self.profiles = ProfileProvider(
            directory=self._settings.profile_dir,
            devices=self._devices,
            cpu_threads=hello["cpu_threads"],
            measure_cpu=lambda: profile.cpu,
        )
        return profile

    def _take(self, message: Event) -> None:
        """Handle a message of the process, in the order in which they come."""
        self._heard = time.monotonic()
        kind = message["type"]
        if "job" in message:
            self._take_event(message)
        elif kind == "ready":
            self._hello = message
            self._greeted.set()
        elif kind in ("locked", "dropped"):
            self.on_slab(kind, message["slab"])

    def _take_event(self, event: Event) -> None:
        job_id = event["job"]
        take = self._runs.get(job_id)
        if take is None or self.state == "stopping":
            return  # runs that the service's end stops are told when the process is gone
        if event["type"] in FINAL_TYPES:
            del self._runs[job_id]
            self._proved = self._proved or event["type"] == "succeeded"
            if event.get("poisoned"):
                self._ready.clear()  # the process is about to end itself
        take(event)

    async def _converse(self, process: EngineProcess) -> None:
        """Wait until the process ends; end it when it falls silent."""
        self._heard = time.monotonic()
        watchdog = asyncio.create_task(self._ping(process), name="engine-watchdog")
        try:
            await process.closed.wait()
        finally:
            watchdog.cancel()

    async def _ping(self, process: EngineProcess) -> None:
        while True:
            process.control({"type": "ping"})
            await asyncio.sleep(self._watch.ping_seconds)
            if time.monotonic() - self._heard > self._watch.silence_seconds:
                self._end_process(f"silent for {self._watch.silence_seconds:g} s")
                return

    def _end_process(self, reason: str) -> None:
        if self._process is not None:
            self._reason = self._reason or reason
            self._ready.clear()
            self._process.kill()

    def _bury(self, reason: str) -> None:
        """Tell those who wait that their process is gone; it holds no memory any more."""
        self._process = None
        self._ready.clear()
        self._gone.set()
        failure = {
            "type": "failed",
            "kind": "engine",
            "message": f"the engine ended: {reason}",
            "retryable": True,
            "poisoned": False,
        }
        runs, self._runs = self._runs, {}
        for job_id, take in runs.items():
            take({**failure, "job": job_id})
        self.on_gone()


def _explain_status(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
