"""uvicorn in the foreground: says where it listens, and drains before it stops."""

import asyncio
import socket
from types import FrameType
from typing import Any

import typer
import uvicorn
from fastapi import FastAPI

from service.commands.exits import CommandFailed
from service.dispatch import Dispatcher
from service.settings import Settings


class ForegroundServer(uvicorn.Server):
    """Answers until the first signal and, while the running job ends, on from there.

    A second signal ends it without waiting for the job, which the next start runs again.

    Args:
        app: The service's application.
        options: What uvicorn.Config takes.
    """

    def __init__(self, app: FastAPI, **options: Any) -> None:
        super().__init__(uvicorn.Config(app, **options))
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: asyncio.Task[None] | None = None
        self._signals = 0

    def serve_until_signal(self, listener: socket.socket) -> None:
        """Serve on a listening socket; returns after a signal.

        Raises:
            CommandFailed: The application did not start; its log says why.
        """
        # uvicorn hands the signal on at its end, when it has been obeyed already.
        try:
            self.run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        except SystemExit as error:
            raise CommandFailed("the service did not start; its log says why") from error

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, and print the address on standard output."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            typer.echo(f"wavetrim is serving on http://{name}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, stop at the second."""
        self._signals += 1
        if self._signals == 1 and self.started and self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_drain, sig)
        else:
            super().handle_exit(sig, frame)

    def _begin_drain(self, sig: int) -> None:
        self._drain = asyncio.create_task(self._drain_then_exit(sig))

    async def _drain_then_exit(self, sig: int) -> None:
        dispatcher: Dispatcher = self._app.state.dispatcher
        settings: Settings = self._app.state.settings
        await dispatcher.drain(settings.drain_seconds)
        super().handle_exit(sig, None)
