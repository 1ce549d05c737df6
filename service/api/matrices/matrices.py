"""Matrices: stored, described, sent and removed."""

from contextlib import AsyncExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import TypeAdapter
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.admission.auth import find_tenant
from wavetrim.service.api.admission.body_route import DESCRIBES, BodyRoute, read_path, read_query
from wavetrim.service.api.admission.idempotency import IdempotencyKey, check_key
from wavetrim.service.api.header_schemas import (
    IfMatch,
    IfNoneMatch,
    IfRange,
    Range,
    describe_headers,
)
from wavetrim.service.api.matrices.conditions import check_if_match
from wavetrim.service.api.matrices.matrix_body import receive_kept, send_kept
from wavetrim.service.api.openapi import describe_download, describe_npy_body, list_refusals
from wavetrim.service.api.parts import MatricesPart, TenantPart
from wavetrim.service.api.schemas import (
    ContentDigest,
    MatrixPage,
    MatrixView,
    StoreQuery,
    show_entry,
    show_matrix,
)
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.clock import read_clock
from wavetrim.service.storage.matrices.npy import MAX_HEADER_BYTES
from wavetrim.service.storage.matrices.upload_keys import UploadKey

router = APIRouter(prefix="/v1/matrices", tags=["matrices"])

MatrixId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="Id of the matrix.",
        examples=["5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e"],
    ),
]

_MATRIX_ID: Final[TypeAdapter[str]] = TypeAdapter(MatrixId)

_LOCATION: Final = {"headers": describe_headers("Location")}
_DATA: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {
        **describe_download(),
        **list_refusals(404, 409, 412, 416),
    },
}


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
        "`curl --data-binary @A.npy -H 'Content-Type: application/x-npy'`."
    ),
)
async def store_matrix(
    _query: Annotated[StoreQuery, Query()],
    _content_digest: ContentDigest = None,
    _idempotency_key: IdempotencyKey = None,
) -> MatrixView:
    """Store a matrix. Once this is answered it outlives a power cut, unless storage is memory."""
    raise AssertionError(DESCRIBES)


async def answer_upload(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers POST /v1/matrices."""
    state = scope["app"].state
    query = read_query(StoreQuery, scope["query_string"])
    headers = Headers(scope=scope)
    key = check_key(headers.get("idempotency-key"))
    tenant = find_tenant(scope)
    body = BodyReader(
        scope,
        receive,
        limit_bytes=state.settings.max_matrix_bytes + MAX_HEADER_BYTES,
        digests=headers.getlist("content-digest") or None,
        idle_seconds=IDLE_SECONDS,
    )
    try:
        on_disk = query.storage == "disk"
        async with (
            state.bodies.place_for(body.length_bytes, tenant.name),
            AsyncExitStack() as stack,
        ):
            if on_disk:
                state.descriptors.take(tenant.name, "files")
                stack.callback(state.descriptors.give, tenant.name)
            matrix, created = await receive_kept(
                body,
                state.matrices,
                state.kept,
                on_disk=on_disk,
                tenant=tenant,
                in_flight=state.in_flight,
                key=None if key is None else UploadKey(key, tenant.name, state.database),
            )
    finally:
        state.metrics.received_bytes.inc(body.received_bytes)
    content = show_matrix(matrix).model_dump_json()
    location = {"Location": f"/v1/matrices/{matrix.id}"}
    response = Response(content, 201 if created else 200, location, media_type="application/json")
    await response(scope, receive, send)


@router.get("", responses=list_refusals())
def list_matrices(
    matrices: MatricesPart,
    tenant: TenantPart,
    limit: Annotated[int, Query(ge=1, le=200, description="The most matrices to return.")] = 50,
    cursor: Annotated[
        str | None, Query(max_length=120, description="next_cursor of the page before.")
    ] = None,
) -> MatrixPage:
    """List the caller's matrices, newest first, each with its age and the jobs that wait for it.

    To a caller with the scope admin, everybody's.
    """
    found, next_cursor = matrices.page(limit=limit, cursor=cursor, owner=tenant.sees)
    now = read_clock()
    entries = [show_entry(matrix, used_by, now) for matrix, used_by in found]
    return MatrixPage(matrices=entries, next_cursor=next_cursor)


@router.get("/{matrix_id}", responses=list_refusals(404))
def get_matrix(matrix_id: MatrixId, matrices: MatricesPart, tenant: TenantPart) -> MatrixView:
    """Describe a matrix."""
    return show_matrix(matrices.get(matrix_id, tenant.sees))


@router.get("/{matrix_id}/data", **_DATA)
async def get_matrix_data(
    matrix_id: MatrixId,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
    range_: Range = None,
    if_range: IfRange = None,
) -> Response:
    """Send the .npy file, whole or a single range of it."""
    del matrix_id, if_match, if_none_match, range_, if_range
    raise AssertionError(DESCRIBES)


async def answer_download(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers GET and HEAD /v1/matrices/{matrix_id}/data."""
    matrix_id = read_path(_MATRIX_ID, scope, "matrix_id")
    await send_kept(scope, receive, send, matrix_id)


@router.delete("/{matrix_id}", status_code=204, responses=list_refusals(404, 409, 412))
def delete_matrix(
    matrix_id: MatrixId,
    request: Request,
    matrices: MatricesPart,
    tenant: TenantPart,
    if_match: IfMatch = None,
) -> None:
    """Remove a matrix that no queued or running job needs; downloads under way go on."""
    if if_match is not None:
        check_if_match(request.headers, matrices.get(matrix_id, tenant.sees).etag)
    matrices.delete(matrix_id, tenant.sees)


routes: Final = (
    BodyRoute("/v1/matrices", answer_upload, methods=["POST"], query=StoreQuery),
    BodyRoute("/v1/matrices/{matrix_id}/data", answer_download, methods=["GET"]),
)
