"""The service's answers as values: matrices, jobs, how a product was computed, health."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from email.message import Message
from typing import Any, Final

_METRIC: Final = re.compile(r"\s*([A-Za-z0-9_-]+)\s*;\s*dur=([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix, or a stack of matrices, that the service stores.

    Attributes:
        id: Its id, for jobs and downloads.
        shape: Rows and columns; of a stack, the number of its matrices before them.
        dtype: NumPy's name of the element type.
        size_bytes: Length of the .npy file.
        document: The service's whole JSON document.
    """

    id: str
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int
    document: Mapping[str, Any]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Matrix":
        """Read the service's JSON."""
        shape = tuple(document["shape"])
        return cls(document["id"], shape, document["dtype"], document["bytes"], document)


@dataclass(frozen=True, slots=True)
class Expected:
    """When the service expects a job to run, by its plans and its past; intervals are of 90%.

    Attributes:
        position: How many products go before it; 0 if it is next, or runs.
        starts_at: When it starts.
        starts_between: Earliest and latest start.
        ends_at: When it ends.
        ends_between: Earliest and latest end.
        reason: What it waits for, in one sentence.
    """

    position: int
    starts_at: datetime
    starts_between: tuple[datetime, datetime]
    ends_at: datetime
    ends_between: tuple[datetime, datetime]
    reason: str

    @classmethod
    def find(cls, job: Mapping[str, Any]) -> "Expected | None":
        """Read the service's JSON of a job; None if the job has ended."""
        document = job.get("expected")
        if document is None:
            return None
        read = datetime.fromisoformat
        times: dict[str, Any] = {name: read(document[name]) for name in ("starts_at", "ends_at")}
        for name in ("starts_between", "ends_between"):
            times[name] = tuple(map(read, document[name]))
        return cls(position=document["position"], reason=document["reason"], **times)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as it was when the service was asked.

    Attributes:
        id: Its id.
        state: "queued", "running", "succeeded", "failed" or "cancelled".
        progress: Share of the product that is done, 0…1.
        labels: The labels that it was posted with.
        expected: When it starts and ends; None once it has ended, or if the service cannot say.
        plan: F, kernel, tile, accuracy, waves and predicted seconds, once it is planned.
        timings: Measured seconds, once it has succeeded.
        verification: Outcome of the check, if the job asked for one.
        result: Id of the product, once it has succeeded.
        error: Why it failed.
        document: The service's whole JSON document.
    """

    id: str
    state: str
    progress: float
    labels: Sequence[str]
    expected: Expected | None
    plan: Mapping[str, Any] | None
    timings: Mapping[str, float] | None
    verification: Mapping[str, Any] | None
    result: str | None
    error: Mapping[str, Any] | None
    document: Mapping[str, Any]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "JobStatus":
        """Read the service's JSON."""
        read = {field.name: document.get(field.name) for field in fields(cls)}
        read |= {"labels": document.get("labels", []), "expected": Expected.find(document)}
        return cls(**read | {"document": document})

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return self.state in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Details:
    """How a product was computed.

    Attributes:
        f: Rows that the plan gave to the CPU; None if the service does not say.
        f_actual: Rows that the CPU computed; None if the service does not say.
        accuracy: How exact the sums of the GPU's kernel are; None if no kernel ran.
        seconds: Measured parts of the time: "queue", "kernel", "transfer", "gpu", "cpu", "total".
    """

    f: int | None
    f_actual: int | None
    accuracy: str | None
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, headers: Message) -> "Details":
        """Read an answer's headers; a missing or unreadable number is None."""
        f, f_actual = headers.get("wavetrim-f", ""), headers.get("wavetrim-f-actual", "")
        return cls(
            f=int(f) if f.isdecimal() else None,
            f_actual=int(f_actual) if f_actual.isdecimal() else None,
            accuracy=headers.get("wavetrim-accuracy"),
            seconds={
                name: float(milliseconds) / 1e3
                for name, milliseconds in _METRIC.findall(headers.get("server-timing", ""))
            },
        )


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service accepts work.

    Attributes:
        ready: Whether it does.
        missing: The parts that are not ready, with the reason; empty if all are.
    """

    ready: bool
    missing: Mapping[str, str]
