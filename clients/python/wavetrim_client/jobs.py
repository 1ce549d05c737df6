"""The jobs of a service: post them, wait for them, and receive their products."""

import contextlib
import json
import math
import re
import uuid
from collections.abc import Collection, Iterator, MutableSequence
from functools import partial
from pathlib import Path
from typing import Final, Unpack

from .errors import (
    ServiceRefused,
)
from .job import LOOK_SECONDS, Job, cancel, look
from .matrices.bodies import make_json_body
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
from .wire.request import Request
from .wire.transport import UNDO_SECONDS

_KEY: Final = re.compile(r"(?! )[\x20-\x7e]{1,255}(?<! )")


class Jobs(StoredMatrices):
    """The calls about jobs."""

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
            check_shapes(sources)
            for name, source in sources.items():
                document[name] = self._store(name, source, uploaded, on_upload)
            request = Request(
                "POST",
                "/v1/jobs",
                headers={"Content-Type": "application/json", "Idempotency-Key": key},
                body=make_json_body(document),
                repeatable=True,
                undo=partial(self._unpost, made=(200, 202) if idempotency_key is None else (202,)),
            )
            return self.job(self._calls.ask(request)["id"])
        except BaseException:
            self._discard(uploaded)
            raise

    def job(self, job_id: str) -> Job:
        """A job that was posted before; the service is not asked yet."""
        return Job(self._calls, job_id, timeout_seconds=self._timeout_seconds)

    def jobs(self, *, state: str | None = None, page: int | None = None) -> Iterator[JobStatus]:
        """The jobs, newest first; asked for page by page.

        Args:
            state: Only jobs in this state: "queued", "running", "succeeded", "failed" or
                "cancelled"; None for all.
            page: Jobs per request; None for the service's default.
        """
        for found in self._calls.list_pages("/v1/jobs", state=state, limit=page):
            yield from map(JobStatus.read, found["jobs"])

    def cancel(self, job_id: str) -> JobStatus:
        """Stop a queued or running job; returns the job as it is now."""
        return cancel(self._calls, job_id)

    def _store(
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
        matrix = self.put(source, digest=isinstance(source, Path), on_progress=move)
        uploaded.append(matrix)
        return matrix.id

    def _unpost(self, answer: Answer, *, made: Collection[int]) -> None:
        """Take back the job of a post that was interrupted after it had arrived.

        Its end is waited for, because until then it needs its operands.

        Args:
            answer: The answer to the post.
            made: Which statuses say that this call made the job. 202 does. 200 says that the key
                has a job already: an earlier try's, if nobody else can have the key.
        """
        if answer.status not in made:
            return
        job_id = str(json.loads(answer.read())["id"])
        longest = math.inf if self._timeout_seconds is None else self._timeout_seconds / 2
        end_seconds = min(UNDO_SECONDS, longest)  # the service is silent until then
        calls = self._calls.within(end_seconds + LOOK_SECONDS)
        with contextlib.suppress(ServiceRefused):  # it has ended
            cancel(calls, job_id)
        job = look(calls, job_id, wait_seconds=end_seconds)
        if job.result is not None:
            self._discard([job.result])


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
