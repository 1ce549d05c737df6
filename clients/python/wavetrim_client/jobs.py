"""The jobs of a service: post them, one or many, list them, cancel them."""

import contextlib
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import check_operands, promote, read_array
from .errors import ServiceRefused, ServiceUnreachable
from .job import LOOK_SECONDS, Job, PostedJob, as_completed
from .npy import make_file_body, read_dtype
from .options import JobOptions, describe_options
from .records import Expected, JobStatus, Matrix
from .stored import StoredMatrices
from .wire.calls import make_json_body
from .wire.connection import UNDO_SECONDS, Request

Source = Matrix | PostedJob | str | Path | ArrayLike
"""An operand of a job: a matrix of the service or its id (a str), a job, whose result it is, a .npy
file (a Path), or anything that NumPy reads as an array."""

Uploaded = Callable[[str, int, int], None]
"""Receives the name of an operand ("a", "b", "c"), the bytes sent, and the bytes in all."""

_KEY: Final = re.compile(r"(?! )[\x20-\x7e]{1,255}(?<! )")


class Jobs(StoredMatrices):
    """The calls about jobs."""

    as_completed = staticmethod(as_completed)

    def submit(
        self,
        a: Source,
        b: Source,
        *,
        c: Source | None = None,
        idempotency_key: str | None = None,
        on_upload: Uploaded | None = None,
        **options: Unpack[JobOptions],
    ) -> Job:
        """Post alpha·A·B + beta·C as a job.

        Files and arrays are uploaded first. If the job is not accepted, or the call is
        interrupted, these uploads are removed again.

        Args:
            a: M x K: a matrix of the service or its id, a job, whose result it is, a .npy file (a
                Path), or an array. A stack of matrices has three dimensions.
            b: K x N, likewise.
            c: M x N, likewise; required if `beta` is not 0.
            idempotency_key: The same key posts the same job only once; None makes a new key, with
                which the call is repeated if its connection breaks.
            on_upload: Receives "a", "b" or "c", the bytes sent, and the bytes in all.
            **options: See `JobOptions`.

        Raises:
            ValueError: An operand is not valid.
            OSError: A file cannot be read.
        """
        posted = self._post([(a, b, c)], options, idempotency_key, on_upload, as_list=False)
        return posted[0][0]

    def submit_many(
        self,
        products: Iterable[Sequence[Source]],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> list[Job]:
        """Post many products as one list: all of them become jobs, or none.

        An array or file that several products have is uploaded once. All else is as in `submit`.

        Args:
            products: Their operands: pairs of A and B, or A, B and C. A service takes 1000 at once.
            idempotency_key: The same key posts the same jobs only once.
            **options: As of `submit`, for each of them.
        """
        return self._post([*products], options, idempotency_key)[0]

    def map(
        self,
        products: Iterable[Sequence[Source]],
        *,
        window: int = 64,
        **options: Unpack[JobOptions],
    ) -> Iterator[NDArray[Any]]:
        """The results of many products, in their order, each once it and those before it are done.

        Nothing stays at the service: results and uploads are removed when they have been used, and
        jobs are cancelled if the iteration ends before they do.

        Args:
            products: Their operands, as of `submit_many`; read as far as jobs are posted. An array
                that all of them have should be stored before, by `put`.
            window: How many jobs are posted ahead at most.
            **options: As of `submit`, for each of them; `storage` is "memory" by default.

        Raises:
            JobUnsuccessful: One of them failed or was cancelled.
        """
        if window < 1:
            raise ValueError(f"window is {window}; it must be at least 1")
        rest = iter(products)
        ahead: deque[tuple[Job, list[Matrix]]] = deque()
        try:
            while True:
                wanted = window - len(ahead)
                if 2 * wanted >= window and (chunk := [*islice(rest, wanted)]):
                    jobs, uploaded = self._post(chunk, {"storage": "memory", **options}, None)
                    ahead += [(job, []) for job in jobs[:-1]]
                    ahead.append((jobs[-1], uploaded))
                if not ahead:
                    return
                result = ahead[0][0].wait().result
                product = self.get(str(result))
                self.discard([str(result), *ahead.popleft()[1]])
                yield product
        except BaseException:
            self.take_back([job.id for job, _ in ahead])
            self.discard(matrix for _, uploaded in ahead for matrix in uploaded)
            raise

    def job(self, job_id: str) -> Job:
        """A job that was posted before; the service is not asked yet."""
        return Job(self._calls, job_id)

    def jobs(
        self,
        *,
        state: str | None = None,
        label: str | Sequence[str] | None = None,
        page: int | None = None,
    ) -> Iterator[JobStatus]:
        """The jobs, newest first; asked for page by page.

        Args:
            state: Only jobs in this state: "queued", "running", "succeeded", "failed" or
                "cancelled"; None for all.
            label: Only jobs with this label, or with all of these; None for all.
            page: Jobs per request; None for the service's default.
        """
        for found in self._calls.list_pages("/v1/jobs", state=state, label=label, limit=page):
            yield from map(JobStatus.read, found["jobs"])

    def cancel(self, job_id: str) -> JobStatus:
        """Stop a queued or running job; returns the job as it is now."""
        return self.job(job_id).cancel()

    def cancel_labelled(self, label: str | Sequence[str]) -> int:
        """Stop the caller's jobs that have a label, or all of several.

        Returns:
            How many had not ended yet.
        """
        request = Request("DELETE", "/v1/jobs", {"label": label}, repeatable=True)
        return int(self._calls.ask(request)["cancelled"])

    def take_back(self, job_ids: Sequence[str]) -> None:
        """Cancel jobs and remove their results; failures are ignored.

        Their ends are waited for, because until then they need their operands.
        """
        calls = self._calls.within(UNDO_SECONDS + LOOK_SECONDS)
        jobs = [Job(calls, job_id) for job_id in job_ids]
        with contextlib.suppress(ServiceUnreachable):
            for job in jobs:
                with contextlib.suppress(ServiceRefused):  # it has ended
                    job.cancel()
            for job in jobs:
                with contextlib.suppress(ServiceRefused):
                    result = job._ask(calls, wait_seconds=UNDO_SECONDS).result
                    self.discard([] if result is None else [result])

    def _post(
        self,
        products: Sequence[Sequence[Any]],
        options: JobOptions,
        idempotency_key: str | None,
        on_upload: Uploaded | None = None,
        *,
        as_list: bool = True,
    ) -> tuple[list[Job], list[Matrix]]:
        """Post products, and store those of their operands that are not there.

        Returns:
            The jobs, and the matrices that were stored.
        """
        if not products:
            return [], []
        key = _choose_key(idempotency_key)
        common = describe_options(options, JobOptions, "c", "idempotency_key", "on_upload")
        sources = [_read_sources(*product) for product in products]
        uploaded: dict[int, Matrix] = {}

        def undo(answer: Any) -> None:
            self.take_back([job["id"] for job in (answer if as_list else [answer])])

        try:
            documents = [
                {name: self._name(name, one, uploaded, on_upload) for name, one in given.items()}
                for given in sources
            ]
            posted = [{**document, **common} for document in documents]
            request = Request(
                "POST",
                "/v1/jobs",
                headers={"Idempotency-Key": key},
                body=make_json_body(posted if as_list else posted[0]),
                repeatable=True,
                # With a key of the caller's, the jobs may be those of an earlier call.
                undo=undo if idempotency_key is None else None,
            )
            answer = self._calls.ask(request)
        except BaseException:
            self.discard(uploaded.values())
            raise
        answers = answer if as_list else [answer]
        jobs = [Job(self._calls, one["id"], Expected.find(one)) for one in answers]
        return jobs, [*uploaded.values()]

    def _name(
        self, name: str, source: Source, uploaded: dict[int, Matrix], on_upload: Uploaded | None
    ) -> Any:
        """An operand as a request names it. A file or an array is uploaded, if it is not yet."""
        if isinstance(source, str):
            return source
        if isinstance(source, Matrix):
            return source.id
        if isinstance(source, PostedJob):
            return {"job": source.id}
        if id(source) not in uploaded:
            move = None if on_upload is None else partial(on_upload, name)
            stored = self.put(source, digest=isinstance(source, Path), on_progress=move)
            uploaded[id(source)] = stored
        return uploaded[id(source)].id


def _read_sources(a: Source, b: Source, c: Source | None = None) -> dict[str, Source]:
    """The operands of a job, with all arrays among them in their common element type."""
    given = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
    arrays = {
        name: read_array(name, source)
        for name, source in given.items()
        if not isinstance(source, Matrix | PostedJob | str | Path)
    }
    if arrays:
        given |= zip(arrays, promote([*arrays.values()]), strict=True)
    known = {name: found for name, one in given.items() if (found := _describe_known(one))}
    check_operands(known)
    return given


def _describe_known(source: Source) -> tuple[tuple[int, ...], str] | None:
    """Shape and element type of an operand, if they are known: not of an id or a job."""
    if isinstance(source, Path):
        make_file_body(source)
        try:
            mapped = np.load(source, mmap_mode="r")
            return mapped.shape, read_dtype(mapped.dtype).name
        except (ValueError, EOFError, AttributeError):  # the service says why it refuses it
            return None
    if isinstance(source, Matrix):
        return source.shape, source.dtype
    return (source.shape, source.dtype.name) if isinstance(source, np.ndarray) else None


def _choose_key(idempotency_key: str | None) -> str:
    """The caller's key, or a new one."""
    if idempotency_key is None:
        return str(uuid.uuid4())
    if not _KEY.fullmatch(idempotency_key):
        limit = "1 to 255 printable ASCII characters, without a space at its ends"
        raise ValueError(f"idempotency_key is {idempotency_key!r}; it must have {limit}")
    return idempotency_key
