"""Blocking calls off the event loop."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from anyio import CancelScope

P = ParamSpec("P")
R = TypeVar("R")


async def run_to_end(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a blocking function in a thread; a cancelled caller leaves only when it has ended.

    So what the function uses, such as an open file, outlives it.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    finally:
        with CancelScope(shield=True):
            await asyncio.wait({running})
