"""Calls of the blocking client in threads, for an event loop.

Each call has a thread while it lasts. A task that is cancelled interrupts its call, and waits until
the call has taken back what it has done.
"""

import asyncio
import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from .wire.interruption import CURRENT, Interruption

P = ParamSpec("P")
T = TypeVar("T")

_CALLBACKS: Final = ("on_progress", "on_upload", "progress")
"""Arguments that may be functions of the caller's, which are called in the event loop."""

_MOST_IDLE: Final = 16
"""How many threads are kept for later calls, as starting one takes about a millisecond; chosen."""

_idle: Final[deque[SimpleQueue[Callable[[], None]]]] = deque()
"""The threads without a call, as the queues from which they take one."""

os.register_at_fork(after_in_child=_idle.clear)


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
        while (value := await _run(lambda: next(values, end))) is not end:
            yield value  # type: ignore[misc]  # it is not the end

    return iterate


async def _run(function: Callable[[], T]) -> T:
    """The result of a function that runs in a thread.

    If the task is cancelled, the function is interrupted, and its end is waited for.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    interruption = Interruption()

    def work() -> None:
        CURRENT.set(interruption)
        try:
            result = function()
        except BaseException as error:
            tell(done.set_exception, error)
        else:
            tell(done.set_result, result)

    def tell(settle: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value)

    _start(work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        interruption.interrupt()
        done.add_done_callback(asyncio.Future.exception)  # nobody else asks for it
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:  # once more: nothing is waited for any longer
            interruption.interrupt()
        raise
    except GeneratorExit:  # the loop is gone
        interruption.interrupt()
        raise


def _start(work: Callable[[], None]) -> None:
    """Run a function in an idle thread, else in a new one."""
    try:
        queue = _idle.pop()
    except IndexError:
        queue = SimpleQueue()
        # The interpreter's end does not wait for a call that its loop has left.
        threading.Thread(target=_serve, args=[queue], name="wavetrim-client", daemon=True).start()
    queue.put(work)


def _serve(queue: SimpleQueue[Callable[[], None]]) -> None:
    """Run the functions of a queue, until enough other threads are idle."""
    while True:
        queue.get()()
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append(queue)


def _call_in_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any
) -> None:
    """Call a function in the event loop, and wait for its end; raises what it raises."""
    done: Future[None] = Future()

    def call() -> None:
        try:
            done.set_result(function(*arguments))
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon_threadsafe(call)
    done.result()
