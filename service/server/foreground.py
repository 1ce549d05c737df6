"""uvicorn in the foreground: says where it listens, and drains before it stops."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import signal
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import typer
import uvicorn

from wavetrim.service.api.wire.connection import WireProtocol
from wavetrim.service.api.wire.refusal import WireLimits
from wavetrim.service.app import Application
from wavetrim.service.server.listening import BACKLOG, Listener
from wavetrim.service.server.tls_server import accept_tls

logger = logging.getLogger(__name__)

LAST_ANSWERS_SECONDS: Final = 10
"""How long open connections may go on after the last job; chosen."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 32 * 2**20
_LARGE_BYTES: Final = 8 * 2**20


class ForegroundServer(uvicorn.Server):
    """Serves until a signal comes, and then until the running jobs have ended.

    A second signal does not wait for the jobs, which the next start runs again; a third one does
    not wait for open connections either.

    Args:
        app: The service's application. Its lifespan is run here, not by uvicorn, so that the
            caller gets an error of its start.
        listeners: Where it listens.
        signals: The signals that end it.
    """

    def __init__(
        self,
        app: Application,
        listeners: Sequence[Listener],
        *,
        signals: Sequence[signal.Signals],
    ) -> None:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",  # the first line is the address of the page
            access_log=False,
            server_header=False,
            headers=[("X-Content-Type-Options", "nosniff")],
            backlog=BACKLOG,
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
        )
        super().__init__(config)
        app.parts.descriptors.count_connections = lambda: len(self.server_state.connections)
        self._app = app
        self._parts = app.parts
        self._listeners = listeners
        self._running = contextlib.AsyncExitStack()
        self._drain: asyncio.Task[None] | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._ends = signals
        self._signals = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, and say where; `sockets` are not used."""
        del sockets
        for number in self._ends:
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        await self._running.enter_async_context(self._app.router.lifespan_context(self._app))
        await super().startup([])  # it listens nowhere by itself
        await self._accept()
        _collect_less()
        for listener, tls in self._listeners:
            words = f"wavetrim is serving on {_find_address(listener, has_tls=tls is not None)}"
            if self._parts.settings.log_format == "json":
                logger.info(words)
            else:
                typer.echo(words)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, let open connections end, then stop the application."""
        if self._accepting is not None:
            self._accepting.cancel()
        await super().shutdown(sockets)
        await self._running.aclose()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the loop: uvicorn knows nothing of a closed terminal."""
        yield

    def _end(self) -> None:
        """Handle a signal."""
        self._signals += 1
        if self._signals == 1 and self.started:
            self._drain = asyncio.create_task(self._drain_then_exit())
            return
        if not self.started:
            self._parts.given_up.set()
        self.should_exit = True
        self.force_exit = self._signals > 2

    async def _accept(self) -> None:
        """Begin to accept connections; uvicorn would not count those in a TLS handshake."""
        refusals = self._parts.metrics.wire_refusals
        limits = WireLimits(self._parts.descriptors, lambda status: refusals.labels(status).inc())
        loop = asyncio.get_running_loop()
        connect = partial(
            WireProtocol,
            config=self.config, server_state=self.server_state, app_state={}, _loop=loop,
            limits=limits,
        )  # fmt: skip
        for listener, tls in self._listeners:
            if tls is not None:
                self._accepting = loop.create_task(accept_tls(listener, tls, connect, limits))
                continue
            is_unix = listener.family == socket.AF_UNIX
            create = loop.create_unix_server if is_unix else loop.create_server
            # Without the backlog asyncio would listen again, with a backlog of 100.
            self.servers.append(await create(connect, sock=listener, backlog=BACKLOG))

    async def _drain_then_exit(self) -> None:
        await self._parts.dispatcher.drain(self._parts.settings.drain_seconds)
        self.should_exit = True


def _find_address(listener: socket.socket, *, has_tls: bool) -> str:
    """An address of the service, as callers write it."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if has_tls else 'http'}://{name}:{port}"


def keep_freed_memory() -> None:
    """Keeps freed memory for the next request instead of giving it back to the system.

    The first bytes of each body come in a buffer of 256 KB. By default glibc gives its pages back
    each time, and touching new ones costs more than copying the bytes: a request of 512 KiB took
    0.5 ms, and takes 0.2 with this (2 cores). Up to 32 MiB are kept; blocks above 8 MiB always go
    back. With another C library nothing happens.
    """
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _collect_less() -> None:
    """Leave what the start has made out of Python's searches for garbage, and search less often.

    What the service makes for a request is freed when the request ends; the searches took a tenth
    of its CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10 * gc.get_threshold()[0])
