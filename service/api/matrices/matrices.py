"""Matrices: stored, described, sent and removed."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from wavetrim.service.api.calls import Call, CallRoute, make_answer
from wavetrim.service.api.checks import check_idempotency
from wavetrim.service.api.matrices.download import check_if_match, send_matrix
from wavetrim.service.api.matrices.upload import Upload
from wavetrim.service.api.openapi import (
    describe_download,
    describe_headers,
    describe_npy_body,
    describe_request_headers,
    list_refusals,
)
from wavetrim.service.api.schemas import (
    MatrixPage,
    MatrixView,
    show_entry,
    show_matrix,
)
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.clock import read_clock
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES

router = APIRouter(prefix="/v1/matrices", tags=["matrices"], route_class=CallRoute)

MatrixId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="Id of the matrix.",
        examples=["5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e"],
    ),
]


class StoreQuery(BaseModel):
    """How a matrix is stored."""

    storage: Literal["disk", "memory"] = Field(
        "disk",
        description="disk, or memory, where it lasts until the service ends or it is deleted.",
    )


_LOCATION: Final = {"headers": describe_headers("Location")}


@router.post(
    "",
    status_code=201,
    response_model=MatrixView,
    responses={
        200: {
            "model": MatrixView,
            "description": "An earlier POST with the same key has stored it.",
            **_LOCATION,
        },
        201: {"description": "It is stored.", **_LOCATION},
        **list_refusals(408, 413, 415, 429, 507),
    },
    openapi_extra=describe_npy_body(
        "A .npy file (versions 1.0 to 3.0) with 2 dimensions, as `numpy.save` writes it: "
        "`curl --data-binary @A.npy -H 'Content-Type: application/x-npy'`.",
        "Content-Digest",
        "Idempotency-Key",
    ),
)
async def store_matrix(call: Call, query: Annotated[StoreQuery, Query()]) -> Response:
    """Store a matrix. Once this is answered it outlives a power cut, unless storage is memory."""
    key = check_idempotency(call.headers.get("idempotency-key"))
    most_bytes = int(call.parts.settings.max_matrix_bytes) + MAX_HEADER_BYTES
    body = BodyReader(call, most_bytes=most_bytes)
    upload = Upload(call, body, on_disk=query.storage == "disk", key=key)
    matrix, created = await call.receive_by(body, upload.receive)
    location = {"Location": f"/v1/matrices/{matrix.id}"}
    return make_answer(show_matrix(matrix), 201 if created else 200, location)


class MatrixListQuery(BaseModel):
    """Which matrices are listed."""

    limit: int = Field(50, ge=1, le=200, description="The most matrices to return.")
    cursor: str | None = Field(None, max_length=120, description="next_cursor of the page before.")


@router.get("", responses=list_refusals())
def list_matrices(call: Call, query: Annotated[MatrixListQuery, Query()]) -> MatrixPage:
    """List the caller's matrices, newest first, each with its age and the jobs that wait for it.

    To a caller with the scope admin, everybody's.
    """
    sees = call.tenant.sees
    found, next_cursor = call.parts.matrices.page(
        limit=query.limit, cursor=query.cursor, owner=sees
    )
    now = read_clock()
    entries = [show_entry(matrix, used_by, now) for matrix, used_by in found]
    return MatrixPage(matrices=entries, next_cursor=next_cursor)


@router.get("/{matrix_id}", responses=list_refusals(404))
def get_matrix(call: Call, matrix_id: MatrixId) -> MatrixView:
    """Describe a matrix."""
    return show_matrix(call.parts.matrices.get(matrix_id, call.tenant.sees))


@router.get("/{matrix_id}/data", **describe_download())
async def get_matrix_data(call: Call, matrix_id: MatrixId) -> None:
    """Send the .npy file, whole or a single range of it."""
    await send_matrix(call, matrix_id)


@router.delete(
    "/{matrix_id}",
    status_code=204,
    responses=list_refusals(404, 409, 412),
    openapi_extra={"parameters": describe_request_headers("If-Match")},
)
def delete_matrix(call: Call, matrix_id: MatrixId) -> None:
    """Remove a matrix that no queued or running job needs; downloads under way go on."""
    matrices, sees = call.parts.matrices, call.tenant.sees
    if "if-match" in call.headers:
        check_if_match(call.headers, matrices.get(matrix_id, sees).etag)
    matrices.delete(matrix_id, sees)
