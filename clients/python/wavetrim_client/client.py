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
from .options import PlanOptions, ProductOptions
from .records import Health, JobStatus, Matrix
from .wire.network import BlockingNetwork, iterate, run
from .wire.request import Progress


class Client(Opened):
    """Speaks to one service; a context manager, and safe for several threads.

    Every call raises `ServiceUnreachable` when there is no answer, `ServiceBusy` when the service
    takes no work now, and `ServiceRefused` with the problem document for the rest. A call that
    breaks is repeated, after short pauses, where that cannot do anything twice; a call that the
    service puts off by a few seconds (503 with Retry-After) is repeated, too.

    Args:
        url: "http://host:8000", "https://host", or a Unix socket: "/run/wavetrim.sock",
            "unix:/run/wavetrim.sock".
        api_key: Bearer token, where the service asks for one.
        timeout: Longest silence of the service within one call, in seconds; None for no limit. A
            product is silent while it is computed.
        retries: How often a call is repeated at most.
        tls_context: How TLS is spoken; None for the system's certificates.

    Raises:
        ValueError: An argument cannot be meant.
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

        `matmul` then sends none of its bytes: products of such arrays, and into one (`out=`), are
        computed where they lie. The memory is the service's until the array and all views of it
        are gone; its elements are whatever was there. Over TCP, or where the service has no room,
        it is an ordinary array.

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
        """alpha·A·B + beta·C in one call; nothing is kept by the service.

        Args:
            a: M x K, or a vector of K; whatever NumPy takes, of any strides.
            b: K x N, or a vector of K. Element types are promoted by NumPy's rules.
            c: Of the product's shape; needed when `beta` is not 0, and else not read.
            dtype: Element type of the product; None for the operands'.
            out: An array of the product's shape and element type to be filled and returned. One
                that lies row after row is received into without a copy.
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
            digest: Send a Content-Digest, for which the source is read once more beforehand.
            on_progress: Receives bytes sent and bytes in all.

        Raises:
            ValueError: The array has not two dimensions, or elements that are not multiplied.
            OSError: The file cannot be read.
        """
        return run(self._session.matrices.put(source, digest=digest, on_progress=on_progress))

    def get(self, matrix: MatrixName, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A matrix of the service as an array.

        Args:
            matrix: It, or its id.
            out: An array of its shape and element type to be filled and returned.

        Raises:
            NotFound: There is none of that id.
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

        A connection that breaks is taken up again where it broke.

        Returns:
            Bytes of the file.

        Raises:
            DownloadCorrupted: The bytes are not those that the service announced.
            OSError: The file cannot be written.
        """
        return run(self._session.matrices.download(matrix, Path(path), on_progress))

    def matrix(self, matrix_id: str) -> Matrix:
        """What the service says of a matrix."""
        return run(self._session.matrices.describe(matrix_id))

    def matrices(self) -> Iterator[Matrix]:
        """All matrices that the service keeps, newest first; asked for page by page."""
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
        idempotency_key: str | None = None,
        on_upload: Uploaded | None = None,
        **options: Unpack[ProductOptions],
    ) -> Job:
        """Post alpha·A·B + beta·C as a job.

        What is not in the service yet is uploaded. If the job is not accepted, or the call is
        interrupted, the uploads are removed again.

        Args:
            a: M x K: a matrix of the service or its id, a .npy file (a Path), or an array.
            b: K x N, likewise.
            c: M x N, likewise; needed when `beta` is not 0.
            priority: A higher one runs first.
            idempotency_key: The same key posts the same job only once; None makes a new one,
                under which a call that breaks is repeated.
            on_upload: Receives "a", "b" or "c", bytes sent, and bytes in all.
            **options: See `ProductOptions`: alpha, beta, f, kernel, tile, accuracy, sms,
                devices, verify.

        Raises:
            ValueError: An operand is none.
            OSError: A file cannot be read.
        """
        posted = self._session.jobs.submit(
            a,
            b,
            c=c,
            priority=priority,
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
            state: Only those that are "queued", "running", "succeeded", "failed", "cancelled".
            page: Jobs that are asked for at a time; None leaves it to the service.
        """
        return iterate(self._session.jobs.list(state, page))

    def cancel(self, job_id: str) -> JobStatus:
        """Stop a job, a running one too; the job as it is now."""
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
        **options: Unpack[PlanOptions],
    ) -> dict[str, Any]:
        """How the service would split a product: F, waves, predicted seconds, the curve.

        Args:
            m: Rows of A and of the product.
            n: Columns of B and of the product.
            k: Columns of A, rows of B.
            dtype: Element type.
            memory: "pageable" or "pinned".
            device: A GPU that need not be there ("H200"); None for the service's own.
            **options: See `PlanOptions`: f, kernel, tile, accuracy, sms, devices.
        """
        return run(
            self._session.plan(m, n, k, dtype=dtype, memory=memory, device=device, **options)
        )

    def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        return run(self._session.devices())

    def health(self) -> Health:
        """Whether the service takes work, and what it lacks if not.

        Raises:
            ServiceUnreachable: It does not answer at all.
        """
        return run(self._session.health())
