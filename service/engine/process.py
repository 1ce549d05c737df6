"""One run of the engine process: started, spoken to, and ended without leaving anything behind."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import wavetrim
from wavetrim.scheduler.engine.messages import (
    PACKET_BYTES,
    Message,
    MessageError,
    decode_message,
    encode_message,
)

logger = logging.getLogger(__name__)
engine_log = logging.getLogger("wavetrim.service.engine.output")

_ROOT: Final = Path(wavetrim.__file__).parents[1]
"""The folder in which Python finds this package."""

_SERVICES_OWN: Final = ("WAVETRIM_", "PG", "OTEL_")
"""How the names of variables begin that only the service reads."""

_OUTPUT_SECONDS: Final = 1.0
"""How long to wait for the last output of a process that has ended; chosen. A child of it that goes
on keeps the output open."""

_LINE_BYTES: Final = 2**16
_BUFFER_BYTES: Final = 2**22
"""Send and receive buffers of the sockets: a message rarely waits for the other side."""


class PacketSocket:
    """Our end of a socket of packets, on the event loop.

    Packets are written in `send` itself and read in the loop's callback: no task is woken.

    Args:
        connection: A connected socket that keeps packets apart.
        take: Receives each message.
        end: Called once when the other side has closed its end.
    """

    def __init__(
        self, connection: socket.socket, take: Callable[[Message], None], end: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._take = take
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[bytes, list[int]]] = deque()
        self._open = True
        connection.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self._loop.add_reader(connection.fileno(), self._read)

    def send(self, message: Message, files: Sequence[int] = ()) -> None:
        """Send a message, with descriptors; lost without an error when the other side is gone."""
        if not self._open:
            return
        packet = (encode_message(message), list(files))
        if self._waiting or not self._try(packet):
            self._waiting.append(packet)
            if len(self._waiting) == 1:
                self._loop.add_writer(self._connection.fileno(), self._write)

    def close(self) -> None:
        """Let go of the socket; messages that still wait are lost."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._connection.fileno())
            self._loop.remove_writer(self._connection.fileno())
            self._connection.close()

    def _try(self, packet: tuple[bytes, list[int]]) -> bool:
        """Send a packet; False when it has to wait."""
        try:
            if packet[1]:
                socket.send_fds(self._connection, [packet[0]], packet[1])
            else:
                self._connection.send(packet[0])
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            logger.debug("the engine has closed its socket")  # `_read` sees it, and calls `end`
        return True

    def _write(self) -> None:
        while self._waiting:
            if not self._try(self._waiting[0]):
                return
            self._waiting.popleft()
        self._loop.remove_writer(self._connection.fileno())

    def _read(self) -> None:
        while self._open:
            try:
                packet = self._connection.recv(PACKET_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                packet = b""
            if not packet:
                self._loop.remove_reader(self._connection.fileno())
                self._end()
                return
            try:
                message = decode_message(packet)
            except MessageError:
                logger.exception("the engine's answer cannot be read")
                continue
            self._take(message)


class EngineProcess:
    """A started engine process.

    It has a session of its own, so a Ctrl-C in the service's terminal does not reach it. What it
    prints goes into the service's log.

    Attributes:
        work: Takes its work; what is sent is lost without an error when the process has ended.
        control: Takes messages that it handles even while a product runs.
        closed: Set when the process has closed a socket; it may take a while to end after that.
    """

    def __init__(
        self,
        process: Process,
        sockets: Sequence[socket.socket],
        output: int,
        take: Callable[[Message], None],
    ) -> None:
        self._process = process
        self.closed = asyncio.Event()
        self.work, self.control = (
            PacketSocket(connection, take, self.closed.set) for connection in sockets
        )
        self._output = asyncio.create_task(_log_output(output), name="engine-output")

    @classmethod
    async def launch(
        cls,
        module: str,
        arguments: Sequence[str],
        take: Callable[[Message], None],
        environment: Mapping[str, str],
    ) -> Self:
        """Start `python -m MODULE` with one end of each of two socket pairs.

        Args:
            module: What it runs.
            arguments: Its command line, but for the descriptors.
            take: Receives each message of the process.
            environment: What it finds in its environment besides the service's.

        Raises:
            OSError: The process cannot be started.
        """
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        ours, theirs = zip(*pairs, strict=True)
        files = [connection.fileno() for connection in theirs]
        # A pipe of our own: asyncio's `wait` would wait until every child has closed its end, too.
        output, their_output = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", module,
                "--fds", *map(str, files), *arguments,
                stdin=DEVNULL, stdout=their_output, stderr=STDOUT,
                pass_fds=files, start_new_session=True, env={**_environment(), **environment},
            )  # fmt: skip
        except BaseException:
            for connection in ours:
                connection.close()  # a process that has started ends with them
            os.close(output)
            raise
        finally:
            for connection in theirs:
                connection.close()
            os.close(their_output)
        return cls(process, ours, output, take)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

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
        finally:  # also where the caller is cancelled meanwhile
            self.kill()
            self.work.close()
            self.control.close()
            status = await self._process.wait()
            await asyncio.wait({self._output}, timeout=_OUTPUT_SECONDS)
            self._output.cancel()
        return status


async def _log_output(output: int) -> None:
    """Log the lines that come out of a pipe, until its end; then close it."""
    stream = asyncio.StreamReader(_LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(output, "rb", buffering=0)
    )
    with contextlib.closing(transport):
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # a line beyond the limit is dropped
            if not line:
                return
            engine_log.info("%s", line.decode(errors="replace").rstrip())


def _environment() -> dict[str, str]:
    """The service's environment, in which the process finds the same package as the service.

    Settings are left out, and those of the database's and the traces' libraries: the process gets
    what it needs as arguments, and keys and passwords are not its own.
    """
    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SERVICES_OWN)}
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
