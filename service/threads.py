"""Blocking calls off the event loop, and work in the background."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from anyio import CancelScope

P = ParamSpec("P")
R = TypeVar("R")


async def run_to_end(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a blocking function in a thread; a cancelled caller leaves only when it has ended.

    So what the function uses, such as an open file, outlives it.
    """
    return await finish(asyncio.to_thread(function, *args, **kwargs))


async def await_end(future: "concurrent.futures.Future[R]") -> R:
    """Awaits a future of a thread; a cancelled caller leaves only when it is done."""
    return await finish(asyncio.wrap_future(future))


async def finish(work: Awaitable[R], *, undo: Callable[[R], object] | None = None) -> R:
    """Awaits something to its end: a cancelled caller leaves only then.

    Args:
        work: The work.
        undo: Called with what was made for a caller that has left.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        with CancelScope(shield=True):
            await asyncio.wait({running})
        if undo is not None and not running.cancelled() and running.exception() is None:
            undo(running.result())
        raise


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Does work while the block runs; then it is cancelled, and its thread awaited."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
