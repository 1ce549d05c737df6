"""Matrices: stored, described, sent and removed."""

import asyncio
import hashlib
import time
from typing import Annotated, Any, Final, Literal

from anyio import CancelScope
from fastapi import APIRouter, Path, Query, Request, Response

from wavetrim.service.api.openapi import describe_npy_answer, describe_npy_body, list_refusals
from wavetrim.service.api.parts import KeptPart, MatricesPart, MetricsPart, SettingsPart
from wavetrim.service.api.schemas import (
    ContentDigest,
    MatrixPage,
    MatrixView,
    show_entry,
    show_matrix,
)
from wavetrim.service.api.wire.body_file import receive_matrix
from wavetrim.service.api.wire.file_response import send_matrix
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.storage.kept import WRITE_BYTES, KeptMatrices
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import Matrix
from wavetrim.service.storage.npy import MAX_HEADER_BYTES
from wavetrim.service.threads import run_to_end

router = APIRouter(prefix="/v1/matrices", tags=["matrices"])

MatrixId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="Id of the matrix.",
        examples=["5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e"],
    ),
]

Storage = Annotated[
    Literal["disk", "memory"],
    Query(description="memory: the matrix is gone with the service's end, or when it is deleted."),
]

_DATA: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {
        200: describe_npy_answer(
            "The .npy file.",
            ETag="Strong: a matrix never changes.",
            Accept_Ranges="bytes",
            Content_Digest="SHA-256 of the file, where it is known (RFC 9530).",
        ),
        206: describe_npy_answer("The range that was asked for.", Content_Range="Which it is."),
        304: {"description": "The caller has it already."},
        **list_refusals(404, 409, 416, 422),
    },
}


@router.post(
    "",
    status_code=201,
    response_model=MatrixView,
    responses={
        201: {"headers": {"Location": {"schema": {"type": "string"}}}},
        **list_refusals(400, 408, 413, 415, 422, 507),
    },
    openapi_extra=describe_npy_body(
        "A .npy file (versions 1.0 to 3.0) with 2 dimensions, as `numpy.save` writes it: "
        "`curl --data-binary @A.npy -H 'Content-Type: application/x-npy'`."
    ),
)
async def store_matrix(
    *,
    request: Request,
    response: Response,
    matrices: MatricesPart,
    settings: SettingsPart,
    metrics: MetricsPart,
    kept: KeptPart,
    storage: Storage = "disk",
    content_digest: ContentDigest = None,
) -> MatrixView:
    """Store a matrix; when this is answered it outlives a power cut, unless it is for memory."""
    body = BodyReader(
        request.scope,
        request.receive,
        limit_bytes=settings.max_matrix_bytes + MAX_HEADER_BYTES,
        digests=content_digest,
        idle_seconds=settings.upload_idle_seconds,
    )
    try:
        matrix = await _receive(body, matrices, kept, on_disk=storage == "disk")
    finally:
        metrics.received_bytes.inc(body.received_bytes)
    response.headers["Location"] = f"/v1/matrices/{matrix.id}"
    return show_matrix(matrix)


@router.get("", responses=list_refusals(422, 503))
def list_matrices(
    matrices: MatricesPart,
    limit: Annotated[int, Query(ge=1, le=200, description="The most matrices to return.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=120, description="next_cursor of the page before.")
    ] = None,
) -> MatrixPage:
    """List matrices, newest first, with their age and the unfinished jobs that use them."""
    found, next_cursor = matrices.page(limit=limit, cursor=cursor)
    now = time.time()
    entries = [show_entry(matrix, used_by, now) for matrix, used_by in found]
    return MatrixPage(matrices=entries, next_cursor=next_cursor)


@router.get("/{matrix_id}", responses=list_refusals(404, 422))
def describe_matrix(matrix_id: MatrixId, matrices: MatricesPart) -> MatrixView:
    """Describe a matrix."""
    return show_matrix(matrices.get(matrix_id))


@router.get("/{matrix_id}/data", **_DATA)
@router.head("/{matrix_id}/data", include_in_schema=False)
async def send_data(
    request: Request,
    matrix_id: MatrixId,
    matrices: MatricesPart,
    metrics: MetricsPart,
    kept: KeptPart,
) -> Response:
    """Send the .npy file, whole or a single range of it."""
    matrix = await run_to_end(matrices.get, matrix_id)
    hold = kept.take(matrix, "socket out")
    return await send_matrix(request, matrix, metrics, matrices, hold)


@router.delete("/{matrix_id}", status_code=204, responses=list_refusals(404, 409, 422))
def delete_matrix(matrix_id: MatrixId, matrices: MatricesPart) -> None:
    """Remove a matrix that no queued or running job needs; downloads under way go on."""
    matrices.delete(matrix_id)


async def _receive(
    body: BodyReader, matrices: MatrixStore, kept: KeptMatrices, *, on_disk: bool
) -> Matrix:
    """Stores the body's only matrix: in the arena, and from there on disk, while it arrives."""
    header, _ = await body.read_header()
    body.expect_length(header.file_bytes, f".npy header ({header})")
    draft = await kept.begin(
        header.rows,
        header.columns,
        header.dtype,
        fortran_order=header.fortran_order,
        on_disk=on_disk,
    )
    if draft is None:
        async with receive_matrix(body, header, matrices) as pending:
            await body.finish(header.file_bytes)
            return await run_to_end(matrices.publish, pending)
    try:
        begin = draft.pending.offset_bytes
        await draft.write(0, begin)
        while begin < len(draft.view):
            end = min(begin + WRITE_BYTES, len(draft.view))
            await body.read_into(draft.view[begin:end], behind_bytes=len(draft.view) - end)
            await draft.write(begin, end)
            begin = end
        await body.finish(header.file_bytes)
        digest = None
        if body.digest is not None:  # of the stored file, whose header is padded
            digest = await run_to_end(_hash, draft.view)
    except BaseException:
        with CancelScope(shield=True):  # who is refused finds nothing left
            await asyncio.wait({asyncio.wrap_future(draft.discard())})
        matrices.release(draft.pending)
        raise
    return await kept.publish(draft, digest)


def _hash(view: memoryview) -> str:
    return hashlib.sha256(view).hexdigest()
