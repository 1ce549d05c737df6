"""Sends a stored matrix from the arena or from its file: whole, or the range that is asked for.

Conditions are on its ETag: If-Match and If-None-Match (RFC 9110, sections 13.1 and 14).
"""

import os
import re
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response

from wavetrim.service.api.calls import Call
from wavetrim.service.api.wire.content import format_digest
from wavetrim.service.api.wire.sender import choose_media_type, send_chunks, send_views
from wavetrim.service.errors import ConditionFailed, RangeNotSatisfiable
from wavetrim.service.storage.errors import MatrixDamaged, MatrixNotFound
from wavetrim.service.storage.matrices.matrix import FileChecks, Matrix
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.threads import run_to_end

CHUNK_BYTES: Final = 2 * 2**20
"""Bytes that are read at a time; chosen: large enough that changing threads is cheap."""

CHECKED_BYTES: Final = 64 * 2**20
"""Longest file that is checked before it is sent, so that damage is a proper refusal; chosen."""

_SINGLE: Final = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.ASCII | re.IGNORECASE)
"""A Range field of one range."""


@dataclass(frozen=True, slots=True)
class Download:
    """The answer to a request for a matrix's .npy file.

    Attributes:
        status: HTTP status.
        headers: All headers, but of an answer with a body no Content-Length.
        part: First byte of the body and the one after the last; None without a body.
    """

    status: int
    headers: dict[str, str]
    part: tuple[int, int] | None = None


def choose_download(method: str, asked: Headers, matrix: Matrix) -> Download:
    """Decides how to answer GET or HEAD of a matrix's file (RFC 9110, sections 13 and 14).

    One range is answered with 206; several ranges with the whole file, which the standard allows.

    Raises:
        MatrixDamaged: The file has changed since it was stored.
        ConditionFailed: If-Match has other tags than the matrix's.
        RangeNotSatisfiable: The range begins after the end of the file.
    """
    if matrix.damaged_at is not None:
        raise MatrixDamaged(matrix.id, "its file has changed")
    check_if_match(asked, matrix.etag)
    size_bytes = matrix.size_bytes
    headers = {"ETag": matrix.etag, "Accept-Ranges": "bytes", "Cache-Control": "private"}
    if _knows(asked, matrix.etag):
        return Download(304, headers)
    headers["Content-Type"] = choose_media_type(asked.get("accept"))
    if method == "HEAD":
        return Download(200, headers | {"Content-Length": str(size_bytes)})
    wanted = asked.get("range")
    if wanted is not None and asked.get("if-range", matrix.etag) == matrix.etag:
        part = parse_range(wanted, size_bytes)
        if part is not None:
            headers["Content-Range"] = f"bytes {part[0]}-{part[1] - 1}/{size_bytes}"
            return Download(206, headers, part)
    if matrix.digest_sha256 is not None:
        headers["Content-Digest"] = format_digest(bytes.fromhex(matrix.digest_sha256))
    return Download(200, headers, (0, size_bytes))


async def send_matrix(call: Call, matrix_id: str) -> None:
    """Answers GET and HEAD with a stored matrix's .npy file, whole or a single range of it.

    The file may be deleted while it is sent. Damage to a large file is noticed only at its end, by
    its CRC-32: then the connection is broken off, so that the client sees an incomplete answer.

    Raises:
        MatrixNotFound: There is none with this id, or its file was deleted meanwhile.
        MatrixDamaged: The file has changed since it was stored.
        ConditionFailed: If-Match has other tags than the matrix's.
        RangeNotSatisfiable: The range begins after the end of the file.
    """
    store = call.parts.matrices
    matrix = await run_to_end(store.get, matrix_id, call.tenant.sees)
    with ExitStack() as stack:
        stack.enter_context(store.stored.sending(matrix))
        hold = store.cache.take(matrix.id, "socket out")
        if hold is not None:
            stack.callback(hold.release)
        download = choose_download(call.method, call.headers, matrix)
        if download.part is None:
            await call.answer(Response(None, download.status, download.headers))
        elif hold is not None:
            view = hold.extent.view[slice(*download.part)]
            if await send_views(call, download.status, Headers(download.headers).raw, [view]):
                call.parts.metrics.sent_bytes.inc(len(view))
        elif not matrix.on_disk:
            raise MatrixNotFound(matrix.id)
        else:
            await _send_file(call, download, matrix)


async def _send_file(call: Call, download: Download, matrix: Matrix) -> None:
    descriptors, checks = call.parts.descriptors, call.parts.matrices.checks
    with ExitStack() as stack:
        stack.callback(descriptors.take(call.tenant.name, "files"))
        is_whole = download.status == 200
        file = await run_to_end(_open_checked, matrix, checks, whole=is_whole)
        stack.callback(os.close, file)
        is_judged = is_whole and matrix.crc32 is not None
        judge = partial(checks.judge, matrix) if is_judged else None
        begin, end = download.part or (0, matrix.size_bytes)
        chunks = _read(file, begin, end, judge, call.parts.metrics)
        headers = Headers(download.headers).raw
        await send_chunks(call, download.status, headers, chunks, end - begin)


async def _read(
    file: int, begin: int, end: int, judge: Callable[[int], None] | None, metrics: Metrics
) -> AsyncGenerator[bytes]:
    """The bytes of an open file; `judge` gets their CRC-32 before the last chunk is yielded."""
    crc32 = None if judge is None else 0
    while begin < end:
        count = min(CHUNK_BYTES, end - begin)
        chunk, crc32 = await run_to_end(_read_chunk, file, begin, count, crc32)
        if not chunk:
            raise OSError(f"the file ends at byte {begin}, not at {end}")
        begin += len(chunk)
        if begin == end and judge is not None and crc32 is not None:
            await run_to_end(judge, crc32)
        metrics.sent_bytes.inc(len(chunk))
        yield chunk


def _read_chunk(file: int, begin: int, count: int, crc32: int | None) -> tuple[bytes, int | None]:
    """Reads some bytes, and updates the CRC-32 with them unless that is None."""
    chunk = os.pread(file, count, begin)
    return chunk, None if crc32 is None else zlib.crc32(chunk, crc32)


def _open_checked(matrix: Matrix, checks: FileChecks, *, whole: bool) -> int:
    """Opens a file, which the caller closes. It is checked first if it is small or sent in part."""
    file = checks.open_file(matrix)
    try:
        if not whole or matrix.size_bytes <= CHECKED_BYTES:
            checks.verify(matrix, file)
    except BaseException:
        os.close(file)
        raise
    return file


def check_if_match(asked: Headers, etag: str) -> None:
    """Makes sure that If-Match, if it was sent, has the ETag of a matrix that is there.

    The comparison is strong: a weak tag never matches.

    Raises:
        ConditionFailed: It has other tags only.
    """
    tags = _list_tags(asked, "if-match")
    if tags and tags != ["*"] and etag not in tags:
        sent = ", ".join(asked.getlist("if-match"))
        raise ConditionFailed("If-Match", sent[:200], f"the ETag {etag}, or *")


def _knows(asked: Headers, etag: str) -> bool:
    """Whether If-None-Match has the ETag; the comparison is weak."""
    tags = [tag.removeprefix("W/") for tag in _list_tags(asked, "if-none-match")]
    return tags == ["*"] or etag in tags


def _list_tags(asked: Headers, name: str) -> list[str]:
    """The tags of all fields of a name; none if there is no such field.

    A tag may have commas, and is then cut. No part is mistaken for an ETag of a matrix: between
    two quotes of one tag there is no third, and `*` counts alone only.
    """
    return [tag.strip() for field in asked.getlist(name) for tag in field.split(",")]


def parse_range(text: str, size_bytes: int) -> tuple[int, int] | None:
    """Reads a Range field.

    Args:
        text: The field.
        size_bytes: Length of the file, at least 1.

    Returns:
        First byte and the one after the last, or None to send the whole file: for other units,
        several ranges and malformed fields, which a server may ignore.

    Raises:
        RangeNotSatisfiable: The range begins after the end of the file.
    """
    match = _SINGLE.fullmatch(text.strip())
    if match is None:
        return None
    first, last = match.groups()
    if first:
        begin, end = int(first), int(last) + 1 if last else size_bytes
    elif last:
        begin, end = max(size_bytes - int(last), 0), size_bytes
    else:
        return None
    if first and last and end <= begin:
        return None
    if begin >= size_bytes:
        raise RangeNotSatisfiable(text, size_bytes)
    return begin, min(end, size_bytes)
