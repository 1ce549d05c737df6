"""The client for asynchronous callers."""

import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from numpy.typing import ArrayLike, DTypeLike, NDArray

from .bodies import Progress
from .details import Details
from .downloads import Arrival
from .job import AsyncJob
from .network import AsyncioNetwork
from .opening import LOCAL_URL, TIMEOUT_SECONDS, open_session
from .options import PlanOptions, ProductOptions
from .records import Health, JobStatus, Matrix
from .sources import MatrixName, Source, Uploaded, name_matrix


class AsyncClient:
    """`Client`, awaited: for asyncio's event loop, or uvloop's. Safe for several tasks.

    Arguments, results and errors are those of `Client`. Files are read and written in the event
    loop, a MiB at a time.
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
        self._session = open_session(
            url,
            AsyncioNetwork(),
            api_key=api_key,
            timeout=timeout,
            retries=retries,
            tls_context=tls_context,
        )

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._session.transport.url

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
        """Close the connections."""
        self._session.close()

    async def empty(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = "float32"
    ) -> NDArray[Any]:
        """A new array in memory that is shared with the service; see `Client.empty`."""
        return await self._session.empty(shape, dtype)

    async def matmul(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        c: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
        **options: Unpack[ProductOptions],
    ) -> NDArray[Any]:
        """alpha·A·B + beta·C in one call; see `Client.matmul`. Leaving it cancels the product."""
        product, _ = await self.matmul_with_details(a, b, c=c, dtype=dtype, out=out, **options)
        return product

    async def matmul_with_details(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        c: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
        **options: Unpack[ProductOptions],
    ) -> tuple[NDArray[Any], Details]:
        """What `matmul` returns, and how it was computed: F, seconds, accuracy."""
        return await self._session.matmul(a, b, c=c, dtype=dtype, out=out, **options)

    async def put(
        self,
        source: Path | ArrayLike,
        *,
        digest: bool = False,
        on_progress: Progress | None = None,
    ) -> Matrix:
        """Store a matrix; see `Client.put`."""
        return await self._session.put(source, digest=digest, on_progress=on_progress)

    async def get(self, matrix: MatrixName, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A matrix of the service as an array; see `Client.get`."""
        return await self._session.fetch(f"/v1/matrices/{name_matrix(matrix)}/data", out)

    async def download(
        self,
        matrix: MatrixName,
        path: str | os.PathLike[str],
        *,
        on_progress: Arrival | None = None,
    ) -> int:
        """Write a matrix to a .npy file; see `Client.download`."""
        route = f"/v1/matrices/{name_matrix(matrix)}/data"
        return await self._session.download(route, Path(path), on_progress)

    async def matrix(self, matrix_id: str) -> Matrix:
        """What the service says of a matrix."""
        return await self._session.matrix(matrix_id)

    async def matrices(self) -> AsyncIterator[Matrix]:
        """All matrices that the service keeps, newest first; asked for page by page."""
        cursor: str | None = None
        while True:
            page, cursor = await self._session.list_matrices(cursor)
            for matrix in page:
                yield matrix
            if cursor is None:
                return

    async def delete(self, matrix: MatrixName) -> None:
        """Remove a matrix that no queued or running job needs."""
        await self._session.delete(matrix)

    async def submit(
        self,
        a: Source,
        b: Source,
        *,
        c: Source | None = None,
        priority: int = 0,
        idempotency_key: str | None = None,
        on_upload: Uploaded | None = None,
        **options: Unpack[ProductOptions],
    ) -> AsyncJob:
        """Post alpha·A·B + beta·C as a job; see `Client.submit`."""
        posted = await self._session.submit(
            a,
            b,
            c=c,
            priority=priority,
            idempotency_key=idempotency_key,
            on_upload=on_upload,
            **options,
        )
        return self.job(posted.id)

    def job(self, job_id: str) -> AsyncJob:
        """A job that was posted before; the service is not asked yet."""
        return AsyncJob(self._session, job_id)

    async def jobs(
        self, *, state: str | None = None, page: int | None = None
    ) -> AsyncIterator[JobStatus]:
        """The jobs, newest first, asked for page by page; see `Client.jobs`."""
        cursor: str | None = None
        while True:
            found, cursor = await self._session.list_jobs(state, page, cursor)
            for job in found:
                yield job
            if cursor is None:
                return

    async def cancel(self, job_id: str) -> JobStatus:
        """Stop a job, a running one too; the job as it is now."""
        return await self._session.cancel(job_id)

    async def plan(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: DTypeLike = "float32",
        memory: str = "pageable",
        device: str | None = None,
        **options: Unpack[PlanOptions],
    ) -> dict[str, Any]:
        """How the service would split a product; see `Client.plan`."""
        return await self._session.plan(
            m, n, k, dtype=dtype, memory=memory, device=device, **options
        )

    async def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        return await self._session.devices()

    async def health(self) -> Health:
        """Whether the service takes work, and what it lacks if not; see `Client.health`."""
        return await self._session.health()
