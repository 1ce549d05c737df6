"""One run of the engine process: started, spoken to, and ended without leaving anything behind."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import wavetrim.scheduler.messages
from wavetrim.scheduler.messages import MessageError, decode_message, encode_message
from wavetrim.service.settings import Settings

logger = logging.getLogger(__name__)
engine_log = logging.getLogger("wavetrim.service.engine.output")

_LINE_BYTES: Final = 4 * 2**20
_ROOT: Final = Path(wavetrim.scheduler.messages.__file__).parents[2]


def list_arguments(settings: Settings, *, use_devices: bool = True) -> list[str]:
    """The engine's command line, but for the socket's file descriptor."""
    arguments = [
        "--cache-dir", str(settings.kernel_cache_dir), "--profile-dir", str(settings.profile_dir),
    ]  # fmt: skip
    device = settings.devices if use_devices else "none"
    options = {
        "--gpu-memory-bytes": settings.gpu_memory_bytes and int(settings.gpu_memory_bytes),
        "--cpu-threads": settings.cpu_threads,
        "--device": device,
    }
    for name, value in options.items():
        if value is not None:
            arguments += [name, str(value)]
    return arguments


class EngineProcess:
    """A started engine process.

    It has a session of its own, so a Ctrl-C in the service's terminal does not reach it. What it
    prints goes into the service's log.
    """

    def __init__(
        self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._output = asyncio.create_task(self._log_output(), name="engine-output")

    @classmethod
    async def launch(cls, arguments: Sequence[str]) -> Self:
        """Start `python -m wavetrim.scheduler.worker` with one end of a socket pair.

        Args:
            arguments: Its command line, but for the file descriptor.

        Raises:
            OSError: The process cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", "wavetrim.scheduler.worker",
                    "--fd", str(theirs.fileno()), *arguments,
                    stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, limit=_LINE_BYTES,
                    pass_fds=(theirs.fileno(),), start_new_session=True, env=_environment(),
                )  # fmt: skip
                reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_BYTES)
            except BaseException:
                ours.close()  # a process that has started ends with it
                raise
        return cls(process, reader, writer)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; lost without an error when the process has ended."""
        if not self._writer.is_closing():
            self._writer.write(encode_message(message))

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the process has closed its end."""
        try:
            line = await self._reader.readline()
            return decode_message(line) if line.endswith(b"\n") else None
        except OSError:
            return None  # it ended with messages unread
        except (ValueError, MessageError):
            logger.exception("the engine's answer cannot be read")
            return None

    def kill(self) -> None:
        """End the process, and whatever it has started, at once."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self, grace_seconds: float = 0.0) -> int:
        """Wait for the process to end, kill it after the grace, and collect all of it.

        Returns:
            The exit status; negative for a signal.
        """
        try:
            async with asyncio.timeout(grace_seconds):
                await self._process.wait()
        except TimeoutError:
            logger.debug("the engine is killed after %g s of grace", grace_seconds)
        finally:
            self.kill()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        status = await self._process.wait()
        await self._output
        return status

    async def _log_output(self) -> None:
        stream = self._process.stdout
        assert stream is not None, "the process is started with a pipe"
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # a line beyond the limit is dropped
            if not line:
                return
            engine_log.info("%s", line.decode(errors="replace").rstrip())


def _environment() -> dict[str, str]:
    """The service's environment, with the folder that this very code was imported from."""
    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
