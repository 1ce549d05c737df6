"""The service's answers as values: matrices, jobs, health."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix that the service stores.

    Attributes:
        id: Its id, for jobs and downloads.
        shape: Rows and columns.
        dtype: NumPy's name of the element type.
        size_bytes: Length of the .npy file.
        document: The service's whole JSON document.
    """

    id: str
    shape: tuple[int, int]
    dtype: str
    size_bytes: int
    document: Mapping[str, Any]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Matrix":
        """Read the service's JSON."""
        rows, columns = document["shape"]
        return cls(document["id"], (rows, columns), document["dtype"], document["bytes"], document)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as it was when the service was asked.

    Attributes:
        id: Its id.
        state: "queued", "running", "succeeded", "failed" or "cancelled".
        progress: Share of the product that is done, 0…1.
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
    plan: Mapping[str, Any] | None
    timings: Mapping[str, float] | None
    verification: Mapping[str, Any] | None
    result: str | None
    error: Mapping[str, Any] | None
    document: Mapping[str, Any]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "JobStatus":
        """Read the service's JSON."""
        return cls(
            id=document["id"],
            state=document["state"],
            progress=document["progress"],
            plan=document.get("plan"),
            timings=document.get("timings"),
            verification=document.get("verification"),
            result=document.get("result"),
            error=document.get("error"),
            document=document,
        )

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return self.state in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service accepts work.

    Attributes:
        ready: Whether it does.
        missing: The parts that are not ready, with the reason; empty if all are.
    """

    ready: bool
    missing: Mapping[str, str]
