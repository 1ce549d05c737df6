"""The client for asynchronous callers."""

import os
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self

from .client import Client
from .job import Job
from .opening import LOCAL_URL, TIMEOUT_SECONDS
from .threads import each_in_thread, in_thread

P = ParamSpec("P")


class AsyncJob:
    """`Job` for asynchronous callers, with the same calls.

    Attributes:
        blocking: The job whose calls run in threads.
    """

    def __init__(self, job: Job) -> None:
        self.blocking = job

    @property
    def id(self) -> str:
        """Its id, valid for as long as the service keeps the job."""
        return self.blocking.id

    def __repr__(self) -> str:
        return f"AsyncJob({self.id!r})"

    status = in_thread(Job.status)
    wait = in_thread(Job.wait)
    result = in_thread(Job.result)
    download = in_thread(Job.download)
    cancel = in_thread(Job.cancel)


def _give_async_job(method: Callable[P, Job]) -> Callable[P, AsyncJob]:
    def call(*arguments: P.args, **named: P.kwargs) -> AsyncJob:
        return AsyncJob(method(*arguments, **named))

    call.__doc__ = method.__doc__
    return call


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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    submit = in_thread(_give_async_job(Client.submit))
    jobs = each_in_thread(Client.jobs)
    cancel = in_thread(Client.cancel)
    plan = in_thread(Client.plan)
    devices = in_thread(Client.devices)
    health = in_thread(Client.health)
