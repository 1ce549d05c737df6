"""A process of the service that is watched, and started again when it ends."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message
from wavetrim.scheduler.errors import ProfileError
from wavetrim.service.engine.process import EngineProcess

logger = logging.getLogger(__name__)

_FIRST_DELAY_SECONDS: Final = 0.1
_MAX_DELAY_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0
"""A process that lived this long, or finished a product, resets the back-off; chosen."""


START_SECONDS: Final = 120.0
"""Until a process must say that it is ready."""

PING_SECONDS: Final = 2.0
SILENCE_SECONDS: Final = 30.0
"""Between two pings, and without a message until a process counts as hanging."""

STOP_SECONDS: Final = 5.0
"""Until a process that was told to end is killed."""


class Supervisor(ABC):
    """Starts, watches and restarts a process, and hands it products.

    To be used from one event loop.

    Args:
        module: What the process runs.
        name: What it is called in the log.
        environment: What it finds in its environment besides the service's.

    Attributes:
        on_restart: Called whenever the process is started again.
        on_ready: Called when a process takes runs.
        on_gone: Called when a process is gone, after each of its runs has had its final message.
        on_slab: Called with "locked" or "dropped" and a slab's id when the process says so.
        state: "stopped", "starting", "ready", "restarting" or "stopping".
        restarts: How often the process was started again.
    """

    def __init__(
        self,
        module: str,
        *,
        name: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._module = module
        self._name = name
        self._environment = environment or {}
        self.on_restart: Callable[[], None] = lambda: None
        self.on_ready: Callable[[], None] = lambda: None
        self.on_gone: Callable[[], None] = lambda: None
        self.on_slab: Callable[[str, int], None] = lambda _kind, _slab: None
        self._process: EngineProcess | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._gone = asyncio.Event()
        self._gone.set()
        self._greeted = asyncio.Event()
        # By job: a number, as it may be tried again, and what takes its messages.
        self._runs: dict[str, tuple[int, Callable[[Message], None]]] = {}
        self._begun_runs = 0
        self._reason: str | None = None
        self._heard = 0.0
        self._proved = False
        self._hello: Message = {}
        self.state = "stopped"
        self.restarts = 0

    @abstractmethod
    def list_arguments(self, _failed_starts: int, /) -> list[str]:
        """The process's command line, given how many starts in a row have failed."""

    @abstractmethod
    def learn(self, _hello: Message, /) -> None:
        """Keep what a process that is ready says of itself.

        Raises:
            ProfileError, KeyError, TypeError: It cannot be read.
        """

    @abstractmethod
    def forget(self) -> None:
        """The process is gone: what it said no longer holds."""

    @abstractmethod
    def take_other(self, _message: Message, /) -> None:
        """Handle a message that is about no run."""

    @property
    def pid(self) -> int | None:
        """Process id; None while there is none."""
        return self._process.pid if self._process else None

    @property
    def ready(self) -> bool:
        """True while the process takes runs."""
        return self._ready.is_set()

    async def start(self) -> None:
        """Start the process in the background; `wait_ready` says when it is there."""
        assert self._supervisor is None, "a process is started once"
        self.state = "starting"
        self._supervisor = asyncio.create_task(self._supervise(), name="engine-supervisor")

    async def wait_ready(self) -> None:
        """Wait until the process takes runs."""
        await self._ready.wait()

    def start_run(self, message: Message, take: Callable[[Message], None]) -> None:
        """Have one product computed, after those that were started before.

        Args:
            message: A run message (`RunRequest.as_message`).
            take: Receives the messages about it, in order. When the process ends before it has
                answered, the final one is a retryable failure of kind "engine". It comes once the
                process is gone, since until then it may write to the product's memory.
        """
        assert self._process is not None, "runs are started while the process is ready"
        self._begun_runs += 1
        self._runs[message["job"]] = self._begun_runs, take
        self._process.work.send({**message, "number": self._begun_runs})

    def send(self, message: Message, files: Sequence[int] = ()) -> None:
        """Send a message that is no run; it is handled after the runs that were started."""
        if self._process is not None:
            self._process.work.send(message, files)

    def cancel(self, job_id: str) -> None:
        """Ask the process to stop a run; its final message follows, and may still be success."""
        if self._process is not None and job_id in self._runs:
            number, _ = self._runs[job_id]
            self._process.control.send({"type": "cancel", "job": job_id, "number": number})

    async def restart(self, reason: str) -> None:
        """Kill the process and wait until it is gone; a new one is started."""
        self._end_process(reason)
        await self._gone.wait()

    async def stop(self) -> None:
        """End the process: by asking it, and by force if it does not listen."""
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
            was_ready = await self._run_process(failed_starts)
            failed_starts = 0 if was_ready else failed_starts + 1
            if self._proved or (was_ready and time.monotonic() - began > _STEADY_SECONDS):
                delay_seconds = _FIRST_DELAY_SECONDS
            self.state = "restarting"
            logger.warning("%s starts again in %.1f s", self._name, delay_seconds)
            await asyncio.sleep(delay_seconds)
            delay_seconds = min(2 * delay_seconds, _MAX_DELAY_SECONDS)
            self.restarts += 1
            self.on_restart()

    async def _run_process(self, failed_starts: int) -> bool:
        """Run the process once, from its start to its end; returns whether it was ready."""
        self._reason, self._proved = None, False
        self._greeted.clear()
        arguments = self.list_arguments(failed_starts)
        try:
            process = self._process = await EngineProcess.launch(
                self._module, arguments, self._take, self._environment
            )
        except OSError:
            logger.exception("%s cannot be started", self._name)
            return False
        self._gone.clear()
        try:
            was_ready = await self._greet(process)
            if was_ready:
                await self._watch_process(process)
            status = await process.end()
        except asyncio.CancelledError:
            process.control.send({"type": "shutdown"})  # the running product stops
            process.work.send({"type": "shutdown"})
            await process.end(STOP_SECONDS)
            self._end_runs("the service stops")
            raise
        end = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        reason = self._reason or end
        logger.error("%s (pid %d) ended: %s", self._name, process.pid, reason)
        self._end_runs(reason)
        return was_ready

    async def _greet(self, process: EngineProcess) -> bool:
        """Wait for the process to say that it is ready."""
        waiting = [asyncio.create_task(one.wait()) for one in (process.closed, self._greeted)]
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait(waiting, timeout=START_SECONDS, return_when=first)
        finally:
            for task in waiting:
                task.cancel()
        if not self._greeted.is_set():
            if not process.closed.is_set():
                self._reason = f"not ready within {START_SECONDS:g} s"
            return False
        try:
            self.learn(self._hello)
        except (ProfileError, KeyError, TypeError) as error:  # perhaps it is of another version
            self._reason = f"what it says of itself cannot be read: {error!r}"
            return False
        self.state = "ready"
        self._ready.set()
        logger.info("%s is ready: pid %d", self._name, process.pid)
        self.on_ready()
        return True

    def _take(self, message: Message) -> None:
        """Handle a message of the process, in the order in which they come."""
        self._heard = time.monotonic()
        kind = message["type"]
        if "job" in message:
            self._take_run_message(message)
        elif kind == "ready":
            self._hello = message
            self._greeted.set()
        elif kind in ("locked", "dropped"):
            self.on_slab(kind, message["slab"])
        else:
            self.take_other(message)

    def _take_run_message(self, message: Message) -> None:
        _, take = self._runs.get(message["job"], (0, None))
        if self.state == "stopping" or take is None:
            return  # when the service stops, runs end once the process is gone: see `_end_runs`
        if message["type"] == "succeeded":
            self._proved = True
        if message.get("poisoned"):
            self._ready.clear()  # the process is about to end itself
        if message["type"] in FINAL_TYPES:
            del self._runs[message["job"]]
        take(message)

    async def _watch_process(self, process: EngineProcess) -> None:
        """Ping the process until it ends; end it when it falls silent."""
        self._heard = time.monotonic()
        while not process.closed.is_set():
            process.control.send({"type": "ping"})
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_SECONDS):
                    await process.closed.wait()
            if time.monotonic() - self._heard > SILENCE_SECONDS:
                self._end_process(f"silent for {SILENCE_SECONDS:g} s")
                await process.closed.wait()

    def _end_process(self, reason: str) -> None:
        if self._process is not None:
            self._reason = self._reason or reason
            self._ready.clear()
            self._process.kill()

    def _end_runs(self, reason: str) -> None:
        """The process is gone and holds no memory: end its runs."""
        self._process = None
        self._ready.clear()
        self._gone.set()
        message = f"{self._name} ended: {reason}"
        failure = {"type": "failed", "kind": "engine", "message": message, "retryable": True}
        runs, self._runs = self._runs, {}
        for job_id, (_, take) in runs.items():
            take({**failure, "job": job_id})
        self.forget()
        self.on_gone()
