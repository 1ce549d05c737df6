"""Matrices: stored, described, sent and removed.

A matrix is stored, or compared with what its Idempotency-Key has stored.
"""

import hashlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from wavetrim.service.api.calls import Call, CallRoute, make_answer
from wavetrim.service.api.checks import check_idempotency
from wavetrim.service.api.matrices.download import check_if_match, send_matrix
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
from wavetrim.service.errors import RetryLater
from wavetrim.service.storage.matrices.draft import receive_draft
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES, Layout
from wavetrim.service.storage.matrices.upload_keys import AlreadyUploaded, UploadKey
from wavetrim.service.threads import run_to_end

_READ_BYTES: Final = 4 * 2**20

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
    text = check_idempotency(call.headers.get("idempotency-key"))
    key = None if text is None else UploadKey(text, call.tenant.name, call.parts.database)
    most_bytes = int(call.parts.settings.max_matrix_bytes) + MAX_HEADER_BYTES
    body = BodyReader(call, most_bytes=most_bytes)
    receive = partial(_receive, call, body, key, on_disk=query.storage == "disk")
    matrix, created = await call.receive_by(body, receive)
    location = {"Location": f"/v1/matrices/{matrix.id}"}
    return make_answer(show_matrix(matrix), 201 if created else 200, location)


class MatrixListQuery(BaseModel):
    """Which matrices are listed."""

    limit: int = Field(50, ge=1, le=200, description="The most matrices to return.")
    cursor: str | None = Field(None, max_length=120, description="next_cursor of the page before.")


@router.get("")
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


async def _receive(
    call: Call, body: BodyReader, key: UploadKey | None, *, on_disk: bool
) -> tuple[Matrix, bool]:
    """Store a matrix, unless an earlier upload with the same key has done so.

    Returns:
        The matrix, and whether this call has stored it.

    Raises:
        NpyError: It is not a .npy file that the service accepts.
        BodyLengthWrong: It is shorter or longer than its header says.
        DigestMismatch: Its SHA-256 differs from Content-Digest.
        StorageFull: There is no room for it, or the tenant's quota has none.
        QuotaReached: The tenant has as many bytes in flight as it may have.
        UploadKeyTaken: The key belongs to an upload of another matrix.
        RetryLater: The matrix under the key is deleted at this moment.
    """
    header = await body.read_header()
    body.expect_length(
        header.file_bytes,
        lambda: f".npy header ({header}); one file here, two for POST /v1/matmul",
    )
    if key is None:
        return await _keep(call, body, header, on_disk=on_disk), True
    # The matrix's description, independent of how its header is written.
    about = (*header.shape, header.dtype, header.fortran_order, on_disk)
    digest = body.hash_rest(repr(about).encode())

    def add_key(matrix_id: str, connection: Connection) -> None:
        key.add(connection, matrix_id, digest.hexdigest())

    if await run_to_end(key.find) is not None:
        await _pass_over(body, header.data_bytes)
    else:
        with suppress(AlreadyUploaded):
            return await _keep(call, body, header, add_key, on_disk=on_disk), True
    first = await run_to_end(key.find, digest.hexdigest())
    if first is None:
        raise RetryLater("the matrix under this Idempotency-Key was just deleted", 1)
    return await run_to_end(call.parts.matrices.get, first), False


async def _pass_over(body: BodyReader, count: int) -> None:
    """Read the elements to compare them, without storing them: that needs no room."""
    buffer = memoryview(bytearray(min(count, _READ_BYTES)))
    for begin in range(0, count, _READ_BYTES):
        await body.read_into(buffer[: count - begin])
    await body.finish()


async def _keep(
    call: Call,
    body: BodyReader,
    header: Layout,
    add_key: Callable[[str, Connection], None] | None = None,
    *,
    on_disk: bool,
) -> Matrix:
    """Receive a matrix into memory, within quotas, and write it to disk meanwhile."""
    parts, tenant, store = call.parts, call.tenant, call.parts.matrices
    described = store.describe(header, owner=tenant.name, on_disk=on_disk)
    with ExitStack() as taken:
        taken.callback(parts.in_flight.take(tenant, described.size_bytes))
        if on_disk:
            taken.callback(parts.descriptors.take(tenant.name, "files"))
        draft = await receive_draft(store, described, body.read_into)
        stored_digest = None
        try:
            await body.finish()
            if body.digest is not None:  # of the stored file, whose header may be padded
                stored_digest = (await run_to_end(hashlib.sha256, draft.view)).hexdigest()
        except BaseException:
            await draft.discard()  # nothing is left once the caller is refused
            raise
        settle = None if add_key is None else partial(add_key, described.id)
        stored, _ = await draft.publish(stored_digest, settle=settle)
        return stored
