"""The client for blocking callers."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from numpy.typing import ArrayLike, DTypeLike, NDArray

from .details import Details
from .job import Job
from .matrices.downloads import Arrival
from .matrices.sources import MatrixName, Source, Uploaded
from .opening import Opened
from .options import PlanQuestion, ProductOptions, Storage
from .records import Health, JobStatus, Matrix
from .wire.network import BlockingNetwork, iterate, run
from .wire.request import Progress


class Client(Opened):
    """A client of one service: a context manager, and safe for several threads.

    Every call raises `ServiceUnreachable` if there is no answer, `ServiceBusy` if the service
    accepts no work now, and `ServiceRefused` with the problem document for any other refusal. A
    call whose connection breaks is repeated after a short pause if that cannot do anything twice.
    So is a call that the service puts off by a few seconds (503 with Retry-After).

    Args:
        url: "http://host:8000", "https://host", or a Unix socket: "/run/wavetrim.sock",
            "unix:/run/wavetrim.sock".
        api_key: Bearer token, if the service requires one.
        timeout: Longest silence of the service within one call, in seconds; None for no limit.
            The service is silent while it computes a product.
        retries: How often a call is repeated at most.
        tls_context: TLS settings; None for the system's certificates.

    Raises:
        ValueError: An argument is not valid.
    """

    _network = BlockingNetwork

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = "float32") -> NDArray[Any]:
        """A new array in memory that is shared with a service on the same host.

        `matmul` sends no bytes of such arrays: the service reads its operands and writes its
        result (`out=`) where they lie. The elements are not initialized. The service takes the
        memory back when the array and all views of it are gone. Over TCP, or if the service has no
        room, the array is an ordinary one.

        Args:
            shape: Elements along each axis.
            dtype: Element type.
        """
        return run(self._session.empty(shape, dtype))

    def matmul(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        c: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
        **options: Unpack[ProductOptions],
    ) -> NDArray[Any]:
        """alpha·A·B + beta·C in one call; the service stores nothing.

        Args:
            a: M x K, or a vector of K; anything that NumPy reads as an array, of any strides.
            b: K x N, or a vector of K. Element types are promoted by NumPy's rules.
            c: An array of the product's shape; required if `beta` is not 0, else not read.
            dtype: Element type of the product; None for the operands'.
            out: An array of the product's shape and element type, which is filled and returned.
                If its elements are contiguous, the product is received into it without a copy.
            **options: See `ProductOptions`: alpha, beta, f, kernel, tile, accuracy, sms,
                devices, verify.

        Raises:
            ValueError: The operands cannot be multiplied, or `out` cannot take the product.
        """
        return self.matmul_with_details(a, b, c=c, dtype=dtype, out=out, **options)[0]

    def matmul_with_details(
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
        return run(self._session.products.multiply(a, b, c=c, dtype=dtype, out=out, **options))

    def put(
        self,
        source: Path | ArrayLike,
        *,
        digest: bool = False,
        on_progress: Progress | None = None,
    ) -> Matrix:
        """Store a matrix: a .npy file (a Path), or a two-dimensional array of any strides.

        Args:
            source: The matrix.
            digest: Send a Content-Digest. The source is read once more for it, before it is sent.
            on_progress: Receives the bytes sent and the bytes in all.

        Raises:
            ValueError: The array is not two-dimensional, or has an element type without products.
            OSError: The file cannot be read.
        """
        return run(self._session.matrices.put(source, digest=digest, on_progress=on_progress))

    def get(self, matrix: MatrixName, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A matrix of the service as an array.

        Args:
            matrix: The matrix or its id.
            out: An array of its shape and element type, which is filled and returned.

        Raises:
            ValueError: `matrix` names none, or `out` cannot take it; no element is received then.
            NotFound: The service has no such matrix.
        """
        return run(self._session.matrices.get(matrix, out))

    def download(
        self,
        matrix: MatrixName,
        path: str | os.PathLike[str],
        *,
        on_progress: Arrival | None = None,
    ) -> int:
        """Write a matrix to a .npy file, which appears when it is complete and checked.

        After a lost connection the download goes on from where it broke.

        Returns:
            Length of the file in bytes.

        Raises:
            DownloadCorrupted: The bytes are not those that the service announced.
            OSError: The file cannot be written.
        """
        return run(self._session.matrices.download(matrix, Path(path), on_progress))

    def matrix(self, matrix_id: str) -> Matrix:
        """Shape, element type and size of a matrix."""
        return run(self._session.matrices.describe(matrix_id))

    def matrices(self) -> Iterator[Matrix]:
        """All matrices that the service stores, newest first; asked for page by page."""
        return iterate(self._session.matrices.list())

    def delete(self, matrix: MatrixName) -> None:
        """Remove a matrix that no queued or running job needs."""
        run(self._session.matrices.delete(matrix))

    def submit(
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
    ) -> Job:
        """Post alpha·A·B + beta·C as a job.

        Files and arrays are uploaded first. If the job is not accepted, or the call is
        interrupted, these uploads are removed again.

        Args:
            a: M x K: a matrix of the service or its id, a .npy file (a Path), or an array.
            b: K x N, likewise.
            c: M x N, likewise; required if `beta` is not 0.
            priority: Jobs of a higher priority run first.
            storage: Where the result is kept: "disk", or "memory" until the service ends.
            idempotency_key: The same key posts the same job only once; None makes a new key, with
                which the call is repeated if its connection breaks.
            on_upload: Receives "a", "b" or "c", the bytes sent, and the bytes in all.
            **options: See `ProductOptions`: alpha, beta, f, kernel, tile, accuracy, sms,
                devices, verify.

        Raises:
            ValueError: An operand is not valid.
            OSError: A file cannot be read.
        """
        posted = self._session.jobs.submit(
            a,
            b,
            c=c,
            priority=priority,
            storage=storage,
            idempotency_key=idempotency_key,
            on_upload=on_upload,
            **options,
        )
        return self.job(run(posted).id)

    def job(self, job_id: str) -> Job:
        """A job that was posted before; the service is not asked yet."""
        return Job(self._session.jobs, job_id)

    def jobs(self, *, state: str | None = None, page: int | None = None) -> Iterator[JobStatus]:
        """The jobs, newest first; asked for page by page.

        Args:
            state: Only jobs in this state: "queued", "running", "succeeded", "failed" or
                "cancelled"; None for all.
            page: Jobs per request; None for the service's default.
        """
        return iterate(self._session.jobs.list(state, page))

    def cancel(self, job_id: str) -> JobStatus:
        """Stop a queued or running job; returns the job as it is now."""
        return run(self._session.jobs.cancel(job_id))

    def plan(
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
        """How the service would split a product: F, waves, predicted seconds, the curve.

        Args:
            m: Rows of A and of the product.
            n: Columns of B and of the product.
            k: Columns of A, rows of B.
            dtype: Element type.
            memory: "pageable" or "pinned".
            device: Preset of a GPU, which need not be there ("H200"); None for the service's GPUs.
            **options: See `PlanQuestion`: f, kernel, tile, accuracy, sms, devices; and in place of
                the machine's own numbers cpu_threads, cpu_gflops, link_gbytes_per_second, resident.
        """
        return run(
            self._session.plan(m, n, k, dtype=dtype, memory=memory, device=device, **options)
        )

    def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        return run(self._session.devices())

    def health(self) -> Health:
        """Whether the service accepts work, and if not, why.

        Raises:
            ServiceUnreachable: It does not answer at all.
        """
        return run(self._session.health())
