"""A stored matrix as a response, whole or in part: sent from the arena, or from its file."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from fastapi import Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.wire.digests import format_digest
from wavetrim.service.api.wire.ranges import parse_range
from wavetrim.service.api.wire.sender import send_views
from wavetrim.service.errors import MatrixDamaged, MatrixNotFound
from wavetrim.service.metrics import Metrics
from wavetrim.service.storage.arena.extent import Hold
from wavetrim.service.storage.checksum import update_crc32
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import Matrix
from wavetrim.service.threads import run_to_end

CHUNK_BYTES: Final = 2 * 2**20
"""So much is read at a time: large enough that switching threads costs nothing."""

CHECKED_BYTES: Final = 64 * 2**20
"""A file of up to this length is checked before it is sent: its caller gets a proper refusal."""


class FileResponse(StreamingResponse):
    """Sends a part of an open file, and closes it whatever happens.

    Args:
        file: Descriptor of the file; from now on it belongs to the response.
        begin: First byte that is sent.
        end: The byte behind the last one.
        status_code: 200, or 206 for a part.
        headers: Headers besides Content-Length and Content-Type.
        metrics: Counts the bytes.
        judge: Is given the CRC-32 of all bytes before the last of them are sent; if it raises, the
            connection is broken off, so what was received is seen to be incomplete.
    """

    media_type = "application/x-npy"

    def __init__(
        self,
        file: int,
        begin: int,
        end: int,
        *,
        status_code: int,
        headers: dict[str, str],
        metrics: Metrics,
        judge: Callable[[int], None] | None = None,
    ) -> None:
        self._file = file
        self._metrics = metrics
        self._judge = judge
        self._crc32 = 0
        headers = {**headers, "Content-Length": str(end - begin)}
        super().__init__(self._read(begin, end), status_code, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._file)

    async def _read(self, begin: int, end: int) -> AsyncIterator[bytes]:
        while begin < end:
            count = min(CHUNK_BYTES, end - begin)
            chunk = await run_to_end(self._read_piece, begin, count)
            if not chunk:
                raise OSError(f"the file ends at byte {begin}, not at {end}")
            begin += len(chunk)
            if begin == end and self._judge is not None:
                await run_to_end(self._judge, self._crc32)
            self._metrics.sent_bytes.inc(len(chunk))
            yield chunk

    def _read_piece(self, begin: int, count: int) -> bytes:
        chunk = os.pread(self._file, count, begin)
        if self._judge is not None:
            self._crc32 = update_crc32(chunk, self._crc32)
        return chunk


async def send_matrix(
    request: Request,
    matrix: Matrix,
    metrics: Metrics,
    store: MatrixStore,
    hold: Hold | None = None,
) -> Response:
    """Answers GET and HEAD for a matrix's .npy file (RFC 9110, sections 13 and 14).

    One range is sent as 206; several ranges are answered with the whole file, which the standard
    allows. The file may be deleted as soon as this function has returned.

    Args:
        request: The request.
        matrix: The matrix.
        metrics: Counts the bytes.
        store: Knows whether the file is as it was stored.
        hold: The file in the arena, if it is there; released when it is not needed any more.

    Raises:
        MatrixNotFound: The file was deleted meanwhile.
        MatrixDamaged: The file has changed since it was stored.
        RangeNotSatisfiable: The range begins behind the end of the file.
    """
    with ExitStack() as stack:
        if hold is not None:
            stack.callback(hold.release)
        answer = await _answer(request, matrix, metrics, store, hold)
        if isinstance(answer, ArenaResponse):
            stack.pop_all()  # it lets go itself
        return answer


async def _answer(
    request: Request, matrix: Matrix, metrics: Metrics, store: MatrixStore, hold: Hold | None
) -> Response:
    if matrix.damaged_at is not None:
        raise MatrixDamaged(matrix.id, "its file has changed")
    headers = {"ETag": matrix.etag, "Accept-Ranges": "bytes", "Cache-Control": "private"}
    if _matches(request.headers.get("if-none-match"), matrix.etag):
        return Response(status_code=304, headers=headers)
    if request.method == "HEAD":
        headers["Content-Length"] = str(matrix.size_bytes)
        return Response(headers=headers, media_type=FileResponse.media_type)
    part = _find_part(request, matrix)
    if part is None and matrix.digest_sha256 is not None:
        headers["Content-Digest"] = format_digest(bytes.fromhex(matrix.digest_sha256))
    if hold is not None:
        return ArenaResponse(hold, part, headers=headers, metrics=metrics)
    if matrix.place == "memory":
        raise MatrixNotFound(matrix.id)
    return await open_matrix(matrix, metrics, store, part=part, headers=headers)


class ArenaResponse(Response):
    """Sends a .npy file, or a part of it, from the arena, and lets go of it when it has left.

    Args:
        hold: The file.
        part: First byte and the one behind the last; the whole file without it.
        headers: Headers besides Content-Length, Content-Type and Content-Range.
        metrics: Counts the bytes.
    """

    media_type = "application/x-npy"

    def __init__(
        self,
        hold: Hold,
        part: tuple[int, int] | None,
        *,
        headers: dict[str, str],
        metrics: Metrics,
    ) -> None:
        size_bytes = hold.extent.size_bytes
        begin, end = part or (0, size_bytes)
        if part is not None:
            headers = headers | {"Content-Range": f"bytes {begin}-{end - 1}/{size_bytes}"}
        super().__init__(status_code=200 if part is None else 206, headers=headers)
        del self.headers["content-length"]  # `send_views` knows it
        self._hold = hold
        self._view = hold.extent.view[begin:end]
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request."""
        del receive
        try:
            await send_views(
                scope,
                send,
                status=self.status_code,
                headers=self.raw_headers,
                views=[self._view],
            )
            self._metrics.sent_bytes.inc(len(self._view))
        finally:
            self._hold.release()


async def open_matrix(
    matrix: Matrix,
    metrics: Metrics,
    store: MatrixStore,
    *,
    part: tuple[int, int] | None = None,
    headers: dict[str, str] | None = None,
) -> FileResponse:
    """A response with a matrix's .npy file; the file may be deleted from now on.

    Args:
        matrix: The matrix.
        metrics: Counts the bytes.
        store: Knows whether the file is as it was stored. A whole file is checked while it is sent,
            and before where that takes little time; a part is sent of a file that was checked.
        part: First byte and the one behind the last; the whole file without it.
        headers: More headers.

    Raises:
        MatrixNotFound: The file was deleted meanwhile.
        MatrixDamaged: The file has changed since it was stored.
    """
    file = await run_to_end(_open_checked, matrix, store, whole=part is None)
    size = matrix.size_bytes
    begin, end = part or (0, size)
    headers = dict(headers or {})
    if part is not None:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    status_code = 200 if part is None else 206
    judge = None if part or matrix.crc32 is None else partial(store.checks.judge, matrix)
    return FileResponse(
        file, begin, end, status_code=status_code, headers=headers, metrics=metrics, judge=judge
    )


def _open_checked(matrix: Matrix, store: MatrixStore, *, whole: bool) -> int:
    file = store.checks.open_file(matrix)
    try:
        if not whole or matrix.size_bytes <= CHECKED_BYTES:
            store.checks.verify(matrix, file)
    except BaseException:
        os.close(file)
        raise
    return file


def _find_part(request: Request, matrix: Matrix) -> tuple[int, int] | None:
    """The range to send; None for the whole file."""
    wanted = request.headers.get("range")
    if wanted is None or request.headers.get("if-range", matrix.etag) != matrix.etag:
        return None
    return parse_range(wanted, matrix.size_bytes)


def _matches(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags
