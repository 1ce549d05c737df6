"""The jobs of a service: post them, wait for them, and receive their products."""

import contextlib
import json
import math
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, MutableSequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

from numpy.typing import NDArray

from .errors import (
    JobUnsuccessful,
    ServiceBusy,
    ServiceRefused,
    ServiceUnreachable,
    WaitTimeout,
)
from .matrices.bodies import JsonBody
from .matrices.downloads import (
    Arrival,
    download_file,
    receive_array,
)
from .matrices.sources import (
    Source,
    Uploaded,
    check_shapes,
    name_matrix,
    promote_arrays,
)
from .matrices.stored import StoredMatrices
from .options import ProductOptions, Storage, check_names, describe_options, read_scalar
from .records import JobStatus, Matrix
from .wire.answer import Answer
from .wire.calls import Calls
from .wire.request import Request
from .wire.transport import UNDO_SECONDS

OUTAGE_SECONDS: Final = 30.0
"""How long the service may be away while a job is waited for: jobs survive a restart. Chosen."""

LOOK_SECONDS: Final = 1.0
"""How long one request about a job waits for its end at most; chosen."""

_WATCHED_LOOK_SECONDS: Final = 0.1
"""The same if the caller watches the progress; chosen."""

_FIRST_POLL_SECONDS: Final = 0.005
"""The first pause between two requests if the service does not wait itself; chosen."""

_KEY: Final = re.compile(r"(?! )[\x20-\x7e]{1,255}(?<! )")


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
        # The service is silent while a request waits for a job's end.
        longest = math.inf if timeout_seconds is None else timeout_seconds / 2
        self._look_seconds = min(LOOK_SECONDS, longest)
        self._watched_look_seconds = min(_WATCHED_LOOK_SECONDS, longest)
        self._end_seconds = min(UNDO_SECONDS, longest)

    async def submit(
        self,
        a: Source,
        b: Source,
        *,
        c: Source | None,
        priority: int,
        storage: Storage,
        idempotency_key: str | None,
        on_upload: Uploaded | None,
        **options: Unpack[ProductOptions],
    ) -> JobStatus:
        """Post a product as a job.

        If the job is not accepted, or the call is interrupted, job and uploads are removed.
        """
        key = _choose_key(idempotency_key)
        check_names(options, ProductOptions, "c", "priority", "storage", "idempotency_key")
        document = describe_options(**options)
        if storage != "disk":
            document["storage"] = storage
        if priority:
            document["priority"] = read_scalar(priority)
        sources = {"a": a, "b": b}
        if c is not None:
            sources["c"] = c
        uploaded: list[Matrix] = []
        try:
            sources = promote_arrays(sources)
            await self._calls.transport.network.compute(lambda: check_shapes(sources))
            for name, source in sources.items():
                document[name] = await self._store(name, source, uploaded, on_upload)
            request = Request(
                "POST",
                "/v1/jobs",
                headers={"Content-Type": "application/json", "Idempotency-Key": key},
                body=JsonBody.write(document),
                repeatable=True,
                undo=partial(self._unpost, made=(200, 202) if idempotency_key is None else (202,)),
            )
            return JobStatus.read(await self._calls.ask(request))
        except BaseException:
            await self._matrices.discard(uploaded)
            raise

    async def look(self, job_id: str) -> JobStatus:
        """A job as it is now."""
        return await self._look(self._calls, job_id)

    async def list(self, state: str | None, page: int | None) -> AsyncIterator[JobStatus]:
        """The jobs, newest first, asked for `page` at a time."""
        async for found in self._calls.list_pages("/v1/jobs", state=state, limit=page):
            for document in found["jobs"]:
                yield JobStatus.read(document)

    async def cancel(self, job_id: str) -> JobStatus:
        """Stop a job; returns the job as it is now."""
        return JobStatus.read(await self._calls.ask(_cancel(job_id)))

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
        longest = self._look_seconds if on_progress is None else self._watched_look_seconds
        begin = answered = time.monotonic()
        end = begin + (math.inf if timeout_seconds is None else timeout_seconds)
        while True:
            asked = time.monotonic()
            left = max(0.0, end - asked)
            look = min(longest, left)
            calls = self._calls.within(left + LOOK_SECONDS)
            try:
                job = await self._look(calls, job_id, wait_seconds=look)
                answered = time.monotonic()
            except (ServiceUnreachable, ServiceBusy):
                if answered + OUTAGE_SECONDS < time.monotonic() <= end:
                    raise
            else:
                if on_progress is not None:
                    on_progress(job)
                if _has_succeeded(job):
                    return job
            if time.monotonic() > end:
                raise WaitTimeout(f"job {job_id} is not finished after {timeout_seconds} s")
            if time.monotonic() - asked < look:  # the service did not wait
                await self._calls.transport.network.sleep(pause)
                pause = min(LOOK_SECONDS, pause * 1.4)

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
        uploaded: MutableSequence[Matrix],
        on_upload: Uploaded | None,
    ) -> str:
        """The id of an operand. A file or an array is uploaded, and added to `uploaded`."""
        if isinstance(source, Matrix | str):
            return name_matrix(source)
        move = None if on_upload is None else lambda *sent: on_upload(name, *sent)
        matrix = await self._matrices.put(source, digest=isinstance(source, Path), on_progress=move)
        uploaded.append(matrix)
        return matrix.id

    async def _look(
        self, calls: Calls, job_id: str, *, wait_seconds: float | None = None
    ) -> JobStatus:
        """A job as it is when it ends, or after `wait_seconds`; None for now."""
        return JobStatus.read(await calls.get(f"/v1/jobs/{job_id}", wait_seconds=wait_seconds))

    async def _unpost(self, answer: Answer, *, made: Collection[int]) -> None:
        """Take back the job of a post that was interrupted after it had arrived.

        Its end is waited for, because until then it needs its operands.

        Args:
            answer: The answer to the post.
            made: Which statuses say that this call made the job. 202 does. 200 says that the key
                has a job already: an earlier try's, if nobody else can have the key.
        """
        if answer.status not in made:
            return
        job_id = str(json.loads(await answer.read())["id"])
        calls = self._calls.within(self._end_seconds + LOOK_SECONDS)
        with contextlib.suppress(ServiceRefused):  # it has ended
            await calls.ask(_cancel(job_id))
        job = await self._look(calls, job_id, wait_seconds=self._end_seconds)
        if job.result is not None:
            await self._matrices.discard([job.result])


def _has_succeeded(job: JobStatus) -> bool:
    """Whether a job has ended with a product.

    Raises:
        JobUnsuccessful: It has ended without.
    """
    if job.is_finished and job.state != "succeeded":
        raise JobUnsuccessful(job.id, job.state, job.error)
    return job.is_finished


def _cancel(job_id: str) -> Request:
    return Request("DELETE", f"/v1/jobs/{job_id}", repeatable=True)


def _choose_key(idempotency_key: str | None) -> str:
    """The caller's key, or a new one.

    Raises:
        ValueError: The service does not take the caller's.
    """
    if idempotency_key is None:
        return str(uuid.uuid4())
    if not _KEY.fullmatch(idempotency_key):
        limit = "1 to 255 printable ASCII characters, without a space at its ends"
        raise ValueError(f"idempotency_key is {idempotency_key!r}; it must have {limit}")
    return idempotency_key
