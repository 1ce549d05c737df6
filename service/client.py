"""A Python client of the service.

Example::

    with WavetrimClient("http://127.0.0.1:8000") as client:
        a, b = client.upload("A.npy"), client.upload(array)
        job = client.wait(client.submit(a, b, wishes=Wishes(accuracy="strict", sms=66)).id)
        client.download_result(job.id, "C.npy")
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
from numpy.typing import NDArray

from wavetrim.scheduler.problem import Memory
from wavetrim.scheduler.wishes import NO_WISHES, Wishes
from wavetrim.service.client_connection import Connection
from wavetrim.service.client_errors import (
    JobUnsuccessful,
    ServiceBusy,
    ServiceUnreachable,
    WaitTimeout,
)
from wavetrim.service.client_records import JobPage, RemoteJob, RemoteMatrix
from wavetrim.service.download import Progress, receive_file
from wavetrim.service.upload import UploadBody, describe_array, describe_file

OUTAGE_SECONDS: Final = 30.0
"""So long may the service be away while a job is waited for: jobs outlive its restart."""

_FIRST_POLL_SECONDS: Final = 0.02
_LAST_POLL_SECONDS: Final = 1.0

MatrixName = str | RemoteMatrix
"""A matrix of the service, or its id."""


class WavetrimClient:
    """Speaks to one service; a context manager. Not for several threads at once.

    Every method raises `ServiceUnreachable` when there is no answer, `ServiceBusy` when the
    service takes no work now, and `ServiceRefused` with the problem document for the rest.

    Args:
        url: Where the service is.
        api_key: Bearer token, where the service asks for one.
        timeout_seconds: Longest silence of the service within one call.

    Raises:
        ValueError: `url` is not an http or https address.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        timeout_seconds: float = 120.0,
    ) -> None:
        self._connection = Connection(url, api_key=api_key, timeout_seconds=timeout_seconds)

    @property
    def url(self) -> str:
        """Where the service is."""
        return self._connection.url

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
        self._connection.close()

    def is_ready(self) -> bool:
        """Whether the service takes work: it answers, and its engine runs."""
        try:
            self._connection.call("GET", "/healthz/ready")
        except (ServiceBusy, ServiceUnreachable):
            return False
        return True

    def upload(
        self,
        source: Path | str | NDArray[Any],
        *,
        digest: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> RemoteMatrix:
        """Store a matrix: a .npy file, or an array. It is read piece by piece.

        Args:
            source: Path of a .npy file, or a two-dimensional array of any strides.
            digest: Send a Content-Digest, for which the source is read once more beforehand.
            on_progress: Receives bytes sent and bytes in all.
        """
        if isinstance(source, Path | str):
            body = describe_file(Path(source))
        else:
            body = describe_array(source)
        headers = {
            "Content-Type": "application/x-npy",
            "Content-Length": str(body.size_bytes),
        }
        if digest:
            headers["Content-Digest"] = body.digest()
        content = _report_chunks(body, on_progress)
        return RemoteMatrix.read(
            self._connection.ask("POST", "/v1/matrices", content=content, headers=headers, tries=1)
        )

    def matrix(self, matrix_id: str) -> RemoteMatrix:
        """What the service says of a matrix."""
        return RemoteMatrix.read(self._connection.ask("GET", f"/v1/matrices/{matrix_id}"))

    def delete_matrix(self, matrix_id: str) -> None:
        """Remove a matrix that no queued or running job needs."""
        self._connection.call("DELETE", f"/v1/matrices/{matrix_id}", tries=1)

    def submit(
        self,
        a: MatrixName,
        b: MatrixName,
        *,
        c: MatrixName | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        wishes: Wishes = NO_WISHES,
        verify: bool = False,
        priority: int = 0,
        idempotency_key: str | None = None,
    ) -> RemoteJob:
        """Post αA·B + βC as a job.

        Args:
            a: M x K.
            b: K x N.
            c: M x N; needed when `beta` is not 0.
            alpha: Factor of the product.
            beta: Factor of C.
            wishes: Kernel, tile, F, accuracy and multiprocessors, where they are not left open.
            verify: Have the product checked before the job succeeds.
            priority: A higher one runs first.
            idempotency_key: The same key posts the same job only once; None makes a new key,
                under which a call that breaks is repeated.
        """
        request: dict[str, Any] = {
            "a": _name_matrix(a),
            "b": _name_matrix(b),
            "alpha": alpha,
            "beta": beta,
            "verify": verify,
            "priority": priority,
            **_drop_none(wishes.as_dict()),
        }
        if c is not None:
            request["c"] = _name_matrix(c)
        key = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return RemoteJob.read(self._connection.ask("POST", "/v1/jobs", json=request, headers=key))

    def job(self, job_id: str) -> RemoteJob:
        """A job as it is now."""
        return RemoteJob.read(self._connection.ask("GET", f"/v1/jobs/{job_id}"))

    def jobs(
        self, *, state: str | None = None, limit: int = 20, cursor: str | None = None
    ) -> JobPage:
        """A page of the jobs, newest first."""
        wanted = {"state": state, "limit": limit, "cursor": cursor}
        page = self._connection.ask("GET", "/v1/jobs", params=_drop_none(wanted))
        return JobPage(tuple(map(RemoteJob.read, page["jobs"])), page["next_cursor"])

    def cancel(self, job_id: str) -> RemoteJob:
        """Stop a job, a running one too; the job as it is now."""
        return RemoteJob.read(self._connection.ask("DELETE", f"/v1/jobs/{job_id}"))

    def wait(
        self,
        job_id: str,
        *,
        on_progress: Callable[[RemoteJob], None] | None = None,
        timeout_seconds: float | None = None,
    ) -> RemoteJob:
        """Wait until a job has succeeded; asks quickly at first, then once a second.

        A service that restarts meanwhile is waited for, up to `OUTAGE_SECONDS`.

        Args:
            job_id: The job.
            on_progress: Receives the job at every look.
            timeout_seconds: How long to wait; None for as long as it takes.

        Raises:
            JobUnsuccessful: It failed or was cancelled.
            WaitTimeout: It was not finished in time.
        """
        pause = _FIRST_POLL_SECONDS
        begin = answered = time.monotonic()
        while True:
            try:
                job = self.job(job_id)
                answered = time.monotonic()
            except (ServiceUnreachable, ServiceBusy):
                if time.monotonic() - answered > OUTAGE_SECONDS:
                    raise
            else:
                if on_progress is not None:
                    on_progress(job)
                if job.state == "succeeded":
                    return job
                if job.is_finished:
                    raise JobUnsuccessful(job.id, job.state, job.error)
            if timeout_seconds is not None and time.monotonic() - begin > timeout_seconds:
                raise WaitTimeout(f"job {job_id} is not finished after {timeout_seconds} s")
            time.sleep(pause)
            pause = min(_LAST_POLL_SECONDS, pause * 1.4)

    def download(
        self, matrix_id: str, path: Path | str, *, on_progress: Progress | None = None
    ) -> int:
        """Write a matrix into a .npy file, which appears when it is complete and checked.

        A connection that breaks is taken up again where it broke.

        Returns:
            Bytes of the file.

        Raises:
            DownloadCorrupted: The bytes are not those that the service announced.
            OSError: The file cannot be written.
        """
        return self._download(f"/v1/matrices/{matrix_id}/data", path, on_progress)

    def download_result(
        self, job_id: str, path: Path | str, *, on_progress: Progress | None = None
    ) -> int:
        """Write the product of a job into a .npy file, as `download` does."""
        return self._download(f"/v1/jobs/{job_id}/result", path, on_progress)

    def plan(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: str = "float32",
        memory: Memory = "pageable",
        device: str | None = None,
        wishes: Wishes = NO_WISHES,
    ) -> dict[str, Any]:
        """How the service would split a product: F, waves, predicted seconds, the curve.

        Jobs are pageable; pinned operands are those of programs that page-lock their memory.
        """
        sizes = {"m": m, "n": n, "k": k, "dtype": dtype, "memory": memory}
        asked = {**sizes, "device": device, **wishes.as_dict()}
        plan: dict[str, Any] = self._connection.ask("GET", "/v1/plan", params=_drop_none(asked))
        return plan

    def devices(self) -> dict[str, Any]:
        """GPUs of the service and the presets that it can plan for."""
        devices: dict[str, Any] = self._connection.ask("GET", "/v1/devices")
        return devices

    def _download(self, path: str, target: Path | str, on_progress: Progress | None) -> int:
        def open_stream(headers: dict[str, str]) -> httpx.Response:
            return self._connection.call("GET", path, headers=headers, stream=True)

        try:
            return receive_file(open_stream, Path(target), on_progress)
        except httpx.TransportError as error:
            raise ServiceUnreachable(self.url, error) from error


def _report_chunks(
    body: UploadBody, on_progress: Callable[[int, int], None] | None
) -> Iterator[bytes]:
    """The body's pieces; tells of each one when the next is asked for."""
    sent = 0
    for chunk in body.read_chunks():
        yield chunk
        sent += len(chunk)
        if on_progress is not None:
            on_progress(sent, body.size_bytes)


def _name_matrix(matrix: MatrixName) -> str:
    return matrix if isinstance(matrix, str) else matrix.id


def _drop_none(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
