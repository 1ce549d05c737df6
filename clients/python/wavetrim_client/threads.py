"""Calls of the blocking client in threads, for an event loop.

Each call has a thread while it lasts. A task that is cancelled interrupts its call, and waits until
the call has taken back what it has done.
"""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from .wire.interruption import CURRENT, Interruption

P = ParamSpec("P")
T = TypeVar("T")

_CALLBACKS: Final = ("on_progress", "on_upload", "progress")
"""Arguments that may be functions of the caller's, which are called in the event loop."""

_MOST_THREADS: Final = 10_000
"""Calls at one time; chosen, so that none waits for the end of another."""

_pool = ThreadPoolExecutor(_MOST_THREADS, "wavetrim-client")


def _renew_pool() -> None:
    global _pool  # noqa: PLW0603 # a forked process has none of the threads
    _pool = ThreadPoolExecutor(_MOST_THREADS, "wavetrim-client")


os.register_at_fork(after_in_child=_renew_pool)


def in_thread(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method that awaits that of `self.blocking` in a thread."""

    @functools.wraps(method)
    async def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        for name in _CALLBACKS:
            if callable(function := named.get(name)):
                named[name] = functools.partial(_call_in_loop, loop, function)
        return await _run(functools.partial(method, self.blocking, *arguments, **named))

    return call


def each_in_thread(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """A method that iterates over what that of `self.blocking` yields, in threads."""

    @functools.wraps(method)
    async def iterate(self: Any, /, *arguments: P.args, **named: P.kwargs) -> AsyncIterator[T]:
        values = method(self.blocking, *arguments, **named)
        end = object()
        try:
            while (value := await _run(lambda: next(values, end))) is not end:
                yield value  # type: ignore[misc]  # it is not the end
        finally:
            await _run(values.close)  # type: ignore[attr-defined]  # they are generators

    return iterate


async def _run(function: Callable[[], T]) -> T:
    """The result of a function that runs in a thread.

    If the task is cancelled, the function is interrupted, and its end is waited for.
    """
    interruption = Interruption()

    def work() -> T:
        CURRENT.set(interruption)
        return function()

    done = asyncio.get_running_loop().run_in_executor(_pool, work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        interruption.interrupt()
        try:
            await asyncio.wait([done])
            done.exception()  # nobody else asks for it
        except asyncio.CancelledError:  # once more: nothing is waited for any longer
            interruption.interrupt()
            done.cancel()
        raise
    except GeneratorExit:  # the loop is gone
        interruption.interrupt()
        done.cancel()
        raise


def _call_in_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any
) -> None:
    """Call a function in the event loop, and wait for its end; raises what it raises."""

    async def call() -> None:
        function(*arguments)

    asyncio.run_coroutine_threadsafe(call(), loop).result()
