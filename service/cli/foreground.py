"""uvicorn in the foreground: says where it listens, and drains before it stops."""

import asyncio
import contextlib
import socket
from types import FrameType
from typing import Any

import typer
import uvicorn
from fastapi import FastAPI

from wavetrim.service.jobs.dispatch import Dispatcher
from wavetrim.service.settings import Settings


class ForegroundServer(uvicorn.Server):
    """Answers until a signal comes, and from there until the running job has ended.

    A second signal does not wait for the job, which the next start runs again; a third one does
    not wait for open connections either.

    Args:
        app: The service's application. Its lifespan is run here, not by uvicorn, so that an error
            while it starts is the caller's to report.
        options: What uvicorn.Config takes.
    """

    def __init__(self, app: FastAPI, **options: Any) -> None:
        super().__init__(uvicorn.Config(app, lifespan="off", **options))
        self._app = app
        self._parts = contextlib.AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: asyncio.Task[None] | None = None
        self._signals = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, and print the address on standard output."""
        self._loop = asyncio.get_running_loop()
        await self._parts.enter_async_context(self._app.router.lifespan_context(self._app))
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            typer.echo(f"wavetrim is serving on http://{name}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open connections end, then stop the application."""
        await super().shutdown(sockets)
        await self._parts.aclose()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal. uvicorn would raise it again at its end; here it has been obeyed then."""
        del sig, frame
        self._signals += 1
        if self._signals == 1 and self.started and self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_drain)
        else:
            self.should_exit = True
            self.force_exit = self._signals > 2

    def _begin_drain(self) -> None:
        self._drain = asyncio.create_task(self._drain_then_exit())

    async def _drain_then_exit(self) -> None:
        dispatcher: Dispatcher = self._app.state.dispatcher
        settings: Settings = self._app.state.settings
        await dispatcher.drain(settings.drain_seconds)
        self.should_exit = True
