"""Schemas that several resources share: matrices, expected ends and problems."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.clock import show_time
from wavetrim.service.jobs.ends import Expected
from wavetrim.service.jobs.estimate import Span
from wavetrim.service.storage.matrices.matrix import Matrix


def _check_dtype(value: str) -> str:
    if value not in ITEM_BYTES:
        raise ValueError(f"one of {', '.join(ITEM_BYTES)}")
    return value


DtypeName = Annotated[
    str, AfterValidator(_check_dtype), Field(json_schema_extra={"enum": list(ITEM_BYTES)})
]


def describe_pair(**limits: int) -> WithJsonSchema:
    """The JSON schema of two whole numbers within the same limits."""
    item = {"type": "integer", **limits}
    return WithJsonSchema({"type": "array", "items": item, "minItems": 2, "maxItems": 2})


Pair = Annotated[tuple[int, int], describe_pair()]
"""Two whole numbers."""

Shape = Annotated[
    tuple[int, ...],
    WithJsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}),
]
"""The sizes of a matrix or of a stack of matrices."""

Owner = Annotated[
    str,
    Field(
        description="Name of the key to which it belongs; empty for the service's own key, and if "
        "the service asks for none."
    ),
]


class MatrixView(BaseModel):
    """A stored matrix."""

    id: str = Field(description="Opaque id.")
    shape: Shape = Field(
        description="Rows and columns; for a stack of matrices, their number comes first."
    )
    dtype: DtypeName = Field(description="Element type.")
    fortran_order: bool = Field(description="True when the elements lie column after column.")
    bytes: int = Field(description="Length of the .npy file.")
    created_at: datetime = Field(description="When it was stored.")
    where: Literal["disk", "memory"] = Field(
        description="disk, or memory, where it lasts until the service ends."
    )
    state: Literal["stored", "damaged"] = Field(
        description="stored, or damaged: its file has changed, so it is neither sent nor used."
    )
    owner: Owner


class MatrixEntry(MatrixView):
    """A matrix in a list."""

    age_seconds: float = Field(description="Since it was stored.")
    used_by: list[str] = Field(
        description="Ids of the caller's queued and running jobs that need it; an admin sees all."
    )


class MatrixPage(BaseModel):
    """Some matrices, newest first."""

    matrices: list[MatrixEntry] = Field(description="The matrices.")
    next_cursor: str | None = Field(
        description="To be sent as `cursor` for the next page; null after the last one."
    )


class ExpectedView(BaseModel):
    """When a job begins and ends, as far as is known."""

    position: int = Field(description="Products that go before it; 0 if it is next, or runs.")
    starts_at: datetime = Field(description="When it begins; of a job that runs, when it did.")
    starts_between: tuple[datetime, datetime] = Field(description="It does so here, with 90%.")
    ends_at: datetime = Field(description="When it ends.")
    ends_between: tuple[datetime, datetime] = Field(description="It does so here, with 90%.")
    reason: str = Field(description="What it waits for, in a sentence.")


class BrokenField(BaseModel):
    """A field of a request that is not valid."""

    field: str = Field(description="Its name.")
    value: Any = Field(None, description="The value that was refused.")
    limit: str = Field(description="What would have been accepted.")


class Problem(BaseModel):
    """A refusal (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="What kind of refusal this is.")
    title: str = Field(description="The same for every refusal of this kind.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened, in words.")
    field: str | None = Field(None, description="The field, header or part of the body.")
    value: Any = Field(None, description="The value that was refused.")
    limit: str | None = Field(None, description="What would have been accepted.")
    errors: list[BrokenField] | None = Field(
        None, description="The first ten fields of the request that are not valid."
    )
    kind: str | None = Field(None, description="What failed, as in the error of a job.")
    missing: dict[str, str] | None = Field(
        None, description="What a service that is not ready lacks, and why."
    )
    incident: str | None = Field(
        None, description="Id of an unexpected error in the service's log."
    )
    error: str | None = Field(
        None, description="The same as `detail`, for clients of the Open Inference Protocol."
    )


def show_matrix(matrix: Matrix) -> MatrixView:
    """The matrix as it is sent."""
    return MatrixView(
        id=matrix.id,
        shape=matrix.shape,
        dtype=matrix.dtype,
        fortran_order=matrix.fortran_order,
        bytes=matrix.size_bytes,
        created_at=datetime.fromtimestamp(matrix.created_at, UTC),
        where="disk" if matrix.on_disk else "memory",
        state="stored" if matrix.damaged_at is None else "damaged",
        owner=matrix.owner,
    )


def show_entry(matrix: Matrix, used_by: Sequence[str], now: float) -> MatrixEntry:
    """The matrix as an entry of a list; `now` is in UTC seconds since the epoch."""
    age_seconds = max(0.0, now - matrix.created_at)
    shown = show_matrix(matrix).model_dump()
    return MatrixEntry(**shown, age_seconds=age_seconds, used_by=list(used_by))


def show_expected(expected: Expected) -> ExpectedView:
    """When a job should begin and end, as it is sent."""
    begins, ends = expected.begins, expected.ends
    return ExpectedView(
        position=expected.position,
        starts_at=show_time(begins.at),
        starts_between=_show_range(begins),
        ends_at=show_time(ends.at),
        ends_between=_show_range(ends),
        reason=expected.reason,
    )


def _show_range(span: Span) -> tuple[datetime, datetime]:
    return show_time(span.low), show_time(span.high)
