"""The client for asynchronous callers."""

import functools
import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, Self, TypeVar

from .client import LOCAL_URL, TIMEOUT_SECONDS, Client
from .job import Job, PostedJob, as_completed
from .records import Expected
from .threads import each_in_thread, in_thread

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class AsyncJob(PostedJob):
    """`Job` for asynchronous callers, with the same calls.

    Attributes:
        id: Its id, valid for as long as the service keeps the job.
        blocking: The job whose calls run in threads.
    """

    def __init__(self, job: Job) -> None:
        self.blocking = job
        self.id = job.id

    @property
    def expected(self) -> Expected | None:
        """When it starts and ends, as the service said when it was last asked."""
        return self.blocking.expected

    status = in_thread(Job.status)
    wait = in_thread(Job.wait)
    result = in_thread(Job.result)
    download = in_thread(Job.download)
    set_priority = in_thread(Job.set_priority)
    cancel = in_thread(Job.cancel)


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

    empty = in_thread(Client.empty)
    matmul = in_thread(Client.matmul)
    matmul_with_details = in_thread(Client.matmul_with_details)
    put = in_thread(Client.put)
    get = in_thread(Client.get)
    download = in_thread(Client.download)
    matrix = in_thread(Client.matrix)
    matrices = each_in_thread(Client.matrices)
    delete = in_thread(Client.delete)
    discard = in_thread(Client.discard)
    submit = in_thread(_then(Client.submit, AsyncJob))
    submit_many = in_thread(_then(Client.submit_many, lambda jobs: [AsyncJob(job) for job in jobs]))
    map = each_in_thread(Client.map)
    as_completed = each_in_thread(_as_completed)
    jobs = each_in_thread(Client.jobs)
    cancel = in_thread(Client.cancel)
    cancel_labelled = in_thread(Client.cancel_labelled)
    take_back = in_thread(Client.take_back)
    plan = in_thread(Client.plan)
    devices = in_thread(Client.devices)
    health = in_thread(Client.health)
