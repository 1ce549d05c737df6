"""The client for asynchronous callers."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from numpy.typing import ArrayLike, DTypeLike, NDArray

from .details import Details
from .job import AsyncJob
from .matrices.downloads import Arrival
from .matrices.sources import MatrixName, Source, Uploaded
from .opening import Opened
from .options import PlanQuestion, ProductOptions, Storage
from .records import Health, JobStatus, Matrix
from .wire.network import AsyncioNetwork
from .wire.request import Progress


class AsyncClient(Opened):
    """`Client` for asyncio's event loop, or uvloop's. Safe for several tasks.

    Arguments, results and errors are those of `Client`. Threads read and write files, a MiB at a
    time. Functions that receive the progress are called in the event loop.
    """

    _network = AsyncioNetwork

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
        """alpha·A·B + beta·C in one call; see `Client.matmul`. Cancelling it stops the product."""
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
        return await self._session.products.multiply(a, b, c=c, dtype=dtype, out=out, **options)

    async def put(
        self,
        source: Path | ArrayLike,
        *,
        digest: bool = False,
        on_progress: Progress | None = None,
    ) -> Matrix:
        """Store a matrix; see `Client.put`."""
        return await self._session.matrices.put(source, digest=digest, on_progress=on_progress)

    async def get(self, matrix: MatrixName, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A matrix of the service as an array; see `Client.get`."""
        return await self._session.matrices.get(matrix, out)

    async def download(
        self,
        matrix: MatrixName,
        path: str | os.PathLike[str],
        *,
        on_progress: Arrival | None = None,
    ) -> int:
        """Write a matrix to a .npy file; see `Client.download`."""
        return await self._session.matrices.download(matrix, Path(path), on_progress)

    async def matrix(self, matrix_id: str) -> Matrix:
        """Shape, element type and size of a matrix."""
        return await self._session.matrices.describe(matrix_id)

    def matrices(self) -> AsyncIterator[Matrix]:
        """All matrices that the service stores, newest first; asked for page by page."""
        return self._session.matrices.list()

    async def delete(self, matrix: MatrixName) -> None:
        """Remove a matrix that no queued or running job needs."""
        await self._session.matrices.delete(matrix)

    async def submit(
        self,
        a: Source,
        b: Source,
        *,
        c: Source | None = None,
        priority: int = 0,
        storage: Storage = "disk",
        idempotency_key: str | None = None,
        on_upload: Uploaded | None = None,
        **options: Unpack[ProductOptions],
    ) -> AsyncJob:
        """Post alpha·A·B + beta·C as a job; see `Client.submit`."""
        posted = await self._session.jobs.submit(
            a,
            b,
            c=c,
            priority=priority,
            storage=storage,
            idempotency_key=idempotency_key,
            on_upload=on_upload,
            **options,
        )
        return self.job(posted.id)

    def job(self, job_id: str) -> AsyncJob:
        """A job that was posted before; the service is not asked yet."""
        return AsyncJob(self._session.jobs, job_id)

    def jobs(
        self, *, state: str | None = None, page: int | None = None
    ) -> AsyncIterator[JobStatus]:
        """The jobs, newest first, asked for page by page; see `Client.jobs`."""
        return self._session.jobs.list(state, page)

    async def cancel(self, job_id: str) -> JobStatus:
        """Stop a queued or running job; returns the job as it is now."""
        return await self._session.jobs.cancel(job_id)

    async def plan(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: DTypeLike = "float32",
        memory: str = "pageable",
        device: str | None = None,
        **options: Unpack[PlanQuestion],
    ) -> dict[str, Any]:
        """How the service would split a product; see `Client.plan`."""
        return await self._session.plan(
            m, n, k, dtype=dtype, memory=memory, device=device, **options
        )

    async def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        return await self._session.devices()

    async def health(self) -> Health:
        """Whether the service accepts work, and if not, why; see `Client.health`."""
        return await self._session.health()
