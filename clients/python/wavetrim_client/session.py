"""All calls to a service, written once: `Client` runs them, `AsyncClient` awaits them."""

import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .errors import ClientError, JobUnsuccessful, ServiceBusy, ServiceUnreachable, WaitTimeout
from .leases.leased_memory import LeasedMemory
from .matrices.bodies import JsonBody, digest_body
from .matrices.downloads import ArrayPlace, Arrival, FilePlace, receive_file
from .matrices.npy import MEDIA_TYPE
from .matrices.partial_file import write_partial
from .matrices.sources import (
    MatrixName,
    Source,
    Uploaded,
    describe_source,
    name_matrix,
    promote_arrays,
)
from .options import PlanOptions, ProductOptions, describe_options
from .products import Products
from .records import Health, JobStatus, Matrix
from .wire.calls import Calls
from .wire.request import Answer, Progress, Request
from .wire.retries import Retries
from .wire.transport import Transport

OUTAGE_SECONDS: Final = 30.0
"""How long the service may be away while a job is waited for: jobs outlive its restart."""

LOOK_SECONDS: Final = 1.0
"""So long at most a look at a job waits for its end."""

_WATCHED_LOOK_SECONDS: Final = 0.1
"""So long where somebody wants to see its progress."""

_FIRST_POLL_SECONDS: Final = 0.005
"""Between the first two looks at a job of a service that does not wait, as earlier ones do not."""


class Session:
    """The calls to one service.

    Args:
        transport: The way to it.
        retries: What is sent again, and when.
        timeout_seconds: How long the service may be silent; None for no limit.

    Attributes:
        transport: As given.
        products: What it computes in one call.
    """

    def __init__(
        self, transport: Transport, retries: Retries, *, timeout_seconds: float | None = None
    ) -> None:
        self.transport = transport
        patience = LOOK_SECONDS if timeout_seconds is None else timeout_seconds / 2
        self._look_seconds = min(LOOK_SECONDS, patience)
        self._network = transport.network
        self._calls = Calls(transport, retries)
        self._memory = LeasedMemory(self._calls, transport.network)
        self.products = Products(self._calls, self._memory)
        self._health_calls = Calls(transport, Retries(tries=1))

    async def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A new array, in a lease where there can be one."""
        array = await self._memory.obtain(shape, dtype)
        return np.empty(shape, dtype) if array is None else array

    def close(self) -> None:
        """Close the connections, and give back the leases in which no array lies."""
        self._memory.close()
        self.transport.close()

    async def put(
        self, source: Path | ArrayLike, *, digest: bool, on_progress: Progress | None
    ) -> Matrix:
        """Store a matrix: one, however often it is sent."""
        body = await self._network.compute(lambda: describe_source(source))
        headers = {"Content-Type": MEDIA_TYPE, "Idempotency-Key": str(uuid.uuid4())}
        if digest:
            headers["Content-Digest"] = await self._network.compute(lambda: digest_body(body))
        request = Request(
            "POST",
            "/v1/matrices",
            headers=headers,
            body=body,
            on_progress=on_progress,
            repeatable=True,
            undo=self._unstore,
        )
        return Matrix.read(await self._calls.ask(request))

    async def matrix(self, matrix_id: str) -> Matrix:
        """What the service says of a matrix."""
        return Matrix.read(await self._get(f"/v1/matrices/{matrix_id}"))

    async def matrices(self) -> AsyncIterator[Matrix]:
        """All matrices, newest first, asked for page by page."""
        async for page in self._list("/v1/matrices"):
            for document in page["matrices"]:
                yield Matrix.read(document)

    async def get(self, matrix: MatrixName, out: NDArray[Any] | None) -> NDArray[Any]:
        """A matrix as an array."""
        return await self._receive(f"/v1/matrices/{name_matrix(matrix)}/data", out)

    async def download(self, matrix: MatrixName, target: Path, on_progress: Arrival | None) -> int:
        """A matrix as a file, which appears when it is complete and checked."""
        return await self._write(f"/v1/matrices/{name_matrix(matrix)}/data", target, on_progress)

    async def delete(self, matrix: MatrixName) -> None:
        """Remove a matrix."""
        await self._calls.remove(f"/v1/matrices/{name_matrix(matrix)}")

    async def submit(
        self,
        a: Source,
        b: Source,
        *,
        c: Source | None,
        priority: int,
        idempotency_key: str | None,
        on_upload: Uploaded | None,
        **options: Unpack[ProductOptions],
    ) -> JobStatus:
        """Post a product as a job; what was uploaded for it is removed when it is not accepted."""
        document = describe_options(**options) | ({"priority": priority} if priority else {})
        sources = {"a": a, "b": b}
        if c is not None:
            sources["c"] = c
        key = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        headers = {"Content-Type": "application/json", **key}
        async with contextlib.AsyncExitStack() as undo:
            for name, source in promote_arrays(sources).items():
                document[name] = await self._store(name, source, undo, on_upload)
            body = JsonBody.write(document)
            request = Request(
                "POST",
                "/v1/jobs",
                headers=headers,
                body=body,
                repeatable=True,
                undo=self._unpost,
            )
            posted = JobStatus.read(await self._calls.ask(request))
            undo.pop_all()
        return posted

    async def job(self, job_id: str, *, wait_seconds: float | None = None) -> JobStatus:
        """A job as it is now, or when it has ended within some seconds."""
        return JobStatus.read(await self._get(f"/v1/jobs/{job_id}", wait_seconds=wait_seconds))

    async def jobs(self, state: str | None, page: int | None) -> AsyncIterator[JobStatus]:
        """The jobs, newest first, `page` of them asked for at a time."""
        async for found in self._list("/v1/jobs", state=state, limit=page):
            for document in found["jobs"]:
                yield JobStatus.read(document)

    async def cancel(self, job_id: str) -> JobStatus:
        """Stop a job; the job as it is now."""
        request = Request("DELETE", f"/v1/jobs/{job_id}", repeatable=True)
        return JobStatus.read(await self._calls.ask(request))

    async def wait(
        self,
        job_id: str,
        *,
        timeout_seconds: float | None,
        on_progress: Callable[[JobStatus], None] | None,
    ) -> JobStatus:
        """Wait until a job has succeeded: the service answers when it has ended.

        One that does not wait is asked quickly at first, then once a second.
        """
        pause = _FIRST_POLL_SECONDS
        begin = answered = time.monotonic()
        while True:
            asked = time.monotonic()
            left = None if timeout_seconds is None else timeout_seconds - (asked - begin)
            look = self._choose_look(left, watched=on_progress is not None)
            try:
                job = await self.job(job_id, wait_seconds=look)
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
            if time.monotonic() - asked < look:  # the service did not wait
                await self._network.sleep(pause)
                pause = min(LOOK_SECONDS, pause * 1.4)

    def _choose_look(self, left_seconds: float | None, *, watched: bool) -> float:
        """How long the next look at a job may wait for its end."""
        look = min(self._look_seconds, _WATCHED_LOOK_SECONDS) if watched else self._look_seconds
        return look if left_seconds is None else max(0.0, min(look, left_seconds))

    async def result(self, job_id: str, out: NDArray[Any] | None) -> NDArray[Any]:
        """The product of a job that has succeeded, as an array."""
        return await self._receive(f"/v1/jobs/{job_id}/result", out)

    async def download_result(self, job_id: str, target: Path, on_progress: Arrival | None) -> int:
        """The product of a job that has succeeded, as a file."""
        return await self._write(f"/v1/jobs/{job_id}/result", target, on_progress)

    async def plan(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: DTypeLike,
        memory: str,
        device: str | None,
        **options: Unpack[PlanOptions],
    ) -> dict[str, Any]:
        """How the service would split a product."""
        sizes = {"m": m, "n": n, "k": k, "dtype": np.dtype(dtype).name, "memory": memory}
        plan: dict[str, Any] = await self._get(
            "/v1/plan", **sizes, device=device, **describe_options(**options)
        )
        return plan

    async def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        devices: dict[str, Any] = await self._get("/v1/devices")
        return devices

    async def health(self) -> Health:
        """Whether the service takes work."""
        try:
            await self._health_calls.ask(Request("GET", "/healthz/ready"))
        except ServiceBusy as busy:
            return Health(ready=False, missing=busy.problem.get("missing", {"service": str(busy)}))
        return Health(ready=True, missing={})

    async def _list(self, path: str, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """The pages of a list."""
        cursor: str | None = None
        while True:
            page = await self._get(path, cursor=cursor, **query)
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def _get(self, path: str, **query: Any) -> Any:
        return await self._calls.ask(Request("GET", path, query, repeatable=True))

    async def _receive(self, path: str, out: NDArray[Any] | None) -> NDArray[Any]:
        """A .npy file of the service as an array."""
        place = ArrayPlace(out)
        await receive_file(self._calls, path, place)
        if out is None or place.array is out:
            return place.array
        if out.shape != place.array.shape:
            raise ValueError(
                f"out has the shape {out.shape}; it must have {place.array.shape}, the matrix's"
            )
        np.copyto(out, place.array, casting="no")
        return out

    async def _write(self, path: str, target: Path, on_progress: Arrival | None) -> int:
        """A .npy file of the service as a file."""
        stack = contextlib.ExitStack()
        file = await self._network.compute(lambda: stack.enter_context(write_partial(target)))
        with stack:
            place = FilePlace(file, self._network)
            size_bytes = await receive_file(self._calls, path, place, on_progress)
            await self._network.compute(stack.close)
        return size_bytes

    async def _store(
        self,
        name: str,
        source: Source,
        undo: contextlib.AsyncExitStack,
        on_upload: Uploaded | None,
    ) -> str:
        """The id of an operand; it is uploaded, to be removed by `undo`, where it is no id yet."""
        if isinstance(source, Matrix | str):
            return name_matrix(source)
        move = None if on_upload is None else lambda *sent: on_upload(name, *sent)
        matrix = await self.put(source, digest=isinstance(source, Path), on_progress=move)
        undo.push_async_callback(self._discard, matrix)
        return matrix.id

    async def _unstore(self, answer: Answer) -> None:
        """Remove a matrix whose upload was interrupted when all of it had arrived.

        The key is new for each, so a matrix that an earlier try has stored is it, too.
        """
        if answer.status in (200, 201):
            await self.delete(str(json.loads(await answer.read())["id"]))

    async def _unpost(self, answer: Answer) -> None:
        """Cancel a job whose posting was interrupted when it had arrived; not an earlier one."""
        if answer.status == 202:
            await self.cancel(str(json.loads(await answer.read())["id"]))

    async def _discard(self, matrix: Matrix) -> None:
        """Remove a matrix that nobody came to need."""
        with contextlib.suppress(ClientError):
            await self.delete(matrix)
