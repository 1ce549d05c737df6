"""The client for asynchronous callers: the calls of the blocking one in threads.

Each call has a thread while it lasts. A task that is cancelled interrupts its call, and waits until
the call has taken back what it has done.
"""

import asyncio
import functools
import os
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from .client import LOCAL_URL, TIMEOUT_SECONDS, Client
from .job import Job, PostedJob, as_completed
from .records import Expected
from .wire.interruption import CURRENT, Interruption

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_CALLBACKS: Final = ("on_progress", "on_upload", "progress")
"""Arguments that may be functions of the caller's, which are called in the event loop."""

_MOST_THREADS: Final = 10_000
"""Calls at one time; chosen, so that none waits for the end of another."""


@functools.cache
def _find_pool(_process: int) -> ThreadPoolExecutor:
    """The threads of a process; a forked one has none of its parent's."""
    return ThreadPoolExecutor(_MOST_THREADS, "wavetrim-client")


def _in_thread(
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


def _each_in_thread(
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

    done = asyncio.get_running_loop().run_in_executor(_find_pool(os.getpid()), work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        interruption.interrupt()
        await asyncio.wait([done])
        done.exception()  # nobody else asks for it
        raise
    finally:
        if not done.done():  # the task is cancelled once more, or the loop is gone
            interruption.interrupt()
            done.cancel()


def _call_in_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any
) -> None:
    """Call a function in the event loop, and wait for its end; raises what it raises."""

    async def call() -> None:
        function(*arguments)

    asyncio.run_coroutine_threadsafe(call(), loop).result()


class AsyncJob(PostedJob):
    """`Job` for asynchronous callers, with the same calls.

    Attributes:
        blocking: The job whose calls run in threads.
    """

    def __init__(self, job: Job) -> None:
        self.blocking = job
        self.id = job.id

    @property
    def expected(self) -> Expected | None:
        """When it starts and ends, as the service said when it was last asked."""
        return self.blocking.expected

    status = _in_thread(Job.status)
    wait = _in_thread(Job.wait)
    result = _in_thread(Job.result)
    download = _in_thread(Job.download)
    set_priority = _in_thread(Job.set_priority)
    cancel = _in_thread(Job.cancel)


def _then(method: Callable[P, T], convert: Callable[[T], R]) -> Callable[P, R]:
    """A method whose result is converted."""

    @functools.wraps(method)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        return convert(method(*arguments, **named))

    return call


def _as_completed(
    _: Client, jobs: Iterable[AsyncJob], *, timeout_seconds: float | None = None
) -> Iterator[AsyncJob]:
    """The jobs as they end, with or without a product; see `as_completed` of blocking jobs."""
    given = {job.blocking: job for job in jobs}
    for job in as_completed(given, timeout_seconds=timeout_seconds):
        yield given[job]


class AsyncClient:
    """`Client` for asyncio's event loop, or uvloop's. Safe for several tasks.

    Arguments, results and errors are those of `Client`, whose calls run in threads. Functions that
    receive the progress are called in the event loop.

    Attributes:
        blocking: The client whose calls run in threads.

    Raises:
        ValueError: An argument is not valid.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] = LOCAL_URL,
        *,
        api_key: str | None = None,
        timeout: float | None = TIMEOUT_SECONDS,
        retries: int = 3,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        self.blocking = Client(
            url, api_key=api_key, timeout=timeout, retries=retries, tls_context=tls_context
        )

    @property
    def url(self) -> str:
        """Address of the service."""
        return self.blocking.url

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, and give back the leases without arrays."""
        self.blocking.close()

    def job(self, job_id: str) -> AsyncJob:
        """A job that was posted before; the service is not asked yet."""
        return AsyncJob(self.blocking.job(job_id))

    empty = _in_thread(Client.empty)
    matmul = _in_thread(Client.matmul)
    matmul_with_details = _in_thread(Client.matmul_with_details)
    put = _in_thread(Client.put)
    get = _in_thread(Client.get)
    download = _in_thread(Client.download)
    matrix = _in_thread(Client.matrix)
    matrices = _each_in_thread(Client.matrices)
    delete = _in_thread(Client.delete)
    discard = _in_thread(Client.discard)
    submit = _in_thread(_then(Client.submit, AsyncJob))
    submit_many = _in_thread(
        _then(Client.submit_many, lambda jobs: [AsyncJob(job) for job in jobs])
    )
    map = _each_in_thread(Client.map)
    as_completed = _each_in_thread(_as_completed)
    jobs = _each_in_thread(Client.jobs)
    cancel = _in_thread(Client.cancel)
    cancel_labelled = _in_thread(Client.cancel_labelled)
    take_back = _in_thread(Client.take_back)
    plan = _in_thread(Client.plan)
    devices = _in_thread(Client.devices)
    health = _in_thread(Client.health)
