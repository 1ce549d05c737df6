"""The jobs of a service: post them, wait for them, and receive their products."""

import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, Unpack

from numpy.typing import NDArray

from .errors import JobUnsuccessful, ServiceBusy, ServiceUnreachable, WaitTimeout
from .matrices.bodies import JsonBody
from .matrices.downloads import (
    Arrival,
    download_file,
    receive_array,
)
from .matrices.sources import (
    Source,
    Uploaded,
    name_matrix,
    promote_arrays,
)
from .matrices.stored import StoredMatrices
from .options import ProductOptions, describe_options, read_scalar
from .records import JobStatus, Matrix
from .wire.answer import Answer
from .wire.calls import Calls
from .wire.request import Request

OUTAGE_SECONDS: Final = 30.0
"""How long the service may be away while a job is waited for: jobs survive a restart. Chosen."""

LOOK_SECONDS: Final = 1.0
"""How long one request about a job waits for its end at most; chosen."""

_WATCHED_LOOK_SECONDS: Final = 0.1
"""The same if the caller watches the progress; chosen."""

_FIRST_POLL_SECONDS: Final = 0.005
"""The first pause between two requests if the service does not wait itself; chosen."""


class Jobs:
    """The calls about one service's jobs.

    Args:
        calls: The calls to the service.
        matrices: Its matrices, where operands are uploaded.
        timeout_seconds: How long the service may be silent; None for no limit.
    """

    def __init__(
        self, calls: Calls, matrices: StoredMatrices, *, timeout_seconds: float | None = None
    ) -> None:
        self._calls = calls
        self._matrices = matrices
        patience = LOOK_SECONDS if timeout_seconds is None else timeout_seconds / 2
        self._look_seconds = min(LOOK_SECONDS, patience)

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
        """Post a product as a job; its uploads are removed if the job is not accepted."""
        document = describe_options(**options)
        if priority:
            document["priority"] = read_scalar(priority)
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

    async def look(self, job_id: str, *, wait_seconds: float | None = None) -> JobStatus:
        """A job as it is when it ends, or after `wait_seconds`; None for now."""
        return JobStatus.read(
            await self._calls.get(f"/v1/jobs/{job_id}", wait_seconds=wait_seconds)
        )

    async def list(self, state: str | None, page: int | None) -> AsyncIterator[JobStatus]:
        """The jobs, newest first, asked for `page` at a time."""
        async for found in self._calls.list_pages("/v1/jobs", state=state, limit=page):
            for document in found["jobs"]:
                yield JobStatus.read(document)

    async def cancel(self, job_id: str) -> JobStatus:
        """Stop a job; returns the job as it is now."""
        request = Request("DELETE", f"/v1/jobs/{job_id}", repeatable=True)
        return JobStatus.read(await self._calls.ask(request))

    async def wait(
        self,
        job_id: str,
        *,
        timeout_seconds: float | None,
        on_progress: Callable[[JobStatus], None] | None,
    ) -> JobStatus:
        """Wait until a job has succeeded: the service answers when the job has ended.

        A service that answers at once is asked often at first, then once a second.
        """
        pause = _FIRST_POLL_SECONDS
        begin = answered = time.monotonic()
        while True:
            asked = time.monotonic()
            left = None if timeout_seconds is None else timeout_seconds - (asked - begin)
            look = self._choose_look(left, watched=on_progress is not None)
            try:
                job = await self.look(job_id, wait_seconds=look)
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
                await self._calls.transport.network.sleep(pause)
                pause = min(LOOK_SECONDS, pause * 1.4)

    def _choose_look(self, left_seconds: float | None, *, watched: bool) -> float:
        """How long the next request about a job may wait for its end."""
        look = min(self._look_seconds, _WATCHED_LOOK_SECONDS) if watched else self._look_seconds
        return look if left_seconds is None else max(0.0, min(look, left_seconds))

    async def result(self, job_id: str, out: NDArray[Any] | None) -> NDArray[Any]:
        """The product of a job that has succeeded, as an array."""
        return await receive_array(self._calls, f"/v1/jobs/{job_id}/result", out)

    async def download_result(self, job_id: str, target: Path, on_progress: Arrival | None) -> int:
        """The product of a job that has succeeded, as a file."""
        return await download_file(self._calls, f"/v1/jobs/{job_id}/result", target, on_progress)

    async def _store(
        self,
        name: str,
        source: Source,
        undo: contextlib.AsyncExitStack,
        on_upload: Uploaded | None,
    ) -> str:
        """The id of an operand. A file or an array is uploaded; `undo` removes it again."""
        if isinstance(source, Matrix | str):
            return name_matrix(source)
        move = None if on_upload is None else lambda *sent: on_upload(name, *sent)
        matrix = await self._matrices.put(source, digest=isinstance(source, Path), on_progress=move)
        undo.push_async_callback(self._matrices.discard, matrix)
        return matrix.id

    async def _unpost(self, answer: Answer) -> None:
        """Cancel the job of a post that was interrupted after it had arrived.

        Status 202 says that the post made a new job; an earlier one of the same key goes on.
        """
        if answer.status == 202:
            await self.cancel(str(json.loads(await answer.read())["id"]))
