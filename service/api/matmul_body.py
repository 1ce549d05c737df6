"""The body of a product in one call: .npy files one behind the other, received where they are used.

A short body is there at once: all its matrices and the result share one piece of memory. Of a
longer one each matrix has memory of its own, into which its elements are received.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wavetrim.scheduler.messages import Operand
from wavetrim.service.api.schemas import MatmulQuery
from wavetrim.service.api.wire.reader import SMALL_BODY_BYTES, BodyReader
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge
from wavetrim.service.jobs.operands import check_operands
from wavetrim.service.storage.npy import NpyHeader, format_header, parse_header
from wavetrim.service.storage.room import Room, RoomHold, Rooms

NAMES: Final = ("first matrix, A", "second matrix, B", "third matrix, C (beta is not 0)")
"""What the matrices of a body are called in a refusal."""

_ALIGNMENT_BYTES: Final = 64
_PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Received:
    """The operands of a product, and memory for its result.

    Attributes:
        operands: A, B and, where beta is not 0, C.
        out: The result.
        answer: The result's bytes as a .npy file.
        rooms: The memory of all of them.
    """

    operands: tuple[Operand, ...]
    out: Operand
    answer: memoryview
    rooms: tuple[Room, ...]


async def receive_product(
    body: BodyReader, query: MatmulQuery, rooms: Rooms, stack: AsyncExitStack, *, limit_bytes: int
) -> Received:
    """Receives the operands and makes room for the result.

    Args:
        body: The body; nothing of it has been read.
        query: What is asked for.
        rooms: Where memory comes from.
        stack: Gets the memory's release.
        limit_bytes: The largest .npy file that is taken, and made.

    Raises:
        NpyError: A matrix is not a .npy file that is taken.
        BodyLengthWrong: The body is shorter or longer than its headers say.
        FieldProblem: The matrices do not fit together, or one is too large.
        StorageFull: There is no memory for them.
    """
    count = 3 if query.beta != 0 else 2
    length = body.length_bytes
    if length is not None and length <= SMALL_BODY_BYTES:
        content = await body.read_all_small()
        await body.finish(len(content))
        return await _place_small(content, count, query, rooms, stack, limit_bytes)
    return await _receive_large(body, count, query, rooms, stack, limit_bytes)


async def _place_small(
    content: bytes,
    count: int,
    query: MatmulQuery,
    rooms: Rooms,
    stack: AsyncExitStack,
    limit_bytes: int,
) -> Received:
    headers, begins = _read_headers(content, count)
    rows, columns, dtype = _check(headers, query, limit_bytes)
    places, total_bytes = _lay_out([header.data_bytes for header in headers])
    head = make_result_header(rows, columns, dtype)
    out_bytes = _count_result_bytes(rows, columns, dtype, limit_bytes)
    room = await _obtain(rooms, total_bytes + len(head) + out_bytes, stack)
    view = room.view
    operands = []
    for header, begin, place in zip(headers, begins, places, strict=True):
        view[place : place + header.data_bytes] = content[begin : begin + header.data_bytes]
        operands.append(_describe(room, place, header))
    answer = view[total_bytes:]
    answer[: len(head)] = head
    out_place = room.offset_bytes + total_bytes + len(head)
    out = Operand(room.place, out_place, rows, columns, dtype)
    return Received(tuple(operands), out, answer, (room,))


async def _receive_large(
    body: BodyReader,
    count: int,
    query: MatmulQuery,
    rooms: Rooms,
    stack: AsyncExitStack,
    limit_bytes: int,
) -> Received:
    headers: list[NpyHeader] = []
    operands: list[Operand] = []
    used: list[Room] = []
    for name in NAMES[:count]:
        header, _ = await body.read_header(name)
        headers.append(header)
        _check_size("matrix size", header.file_bytes, limit_bytes)
        if len(headers) > 1:
            _check(headers, query, limit_bytes)
        if len(headers) == count:
            described = ", ".join(map(str, headers))
            total_bytes = sum(header.file_bytes for header in headers)
            body.expect_length(total_bytes, f".npy headers ({described})")
        room = await _obtain(rooms, header.data_bytes, stack)
        await body.read_into(room.view)
        operands.append(_describe(room, 0, header))
        used.append(room)
    await body.finish(sum(header.file_bytes for header in headers))
    rows, columns, dtype = _check(headers, query, limit_bytes)
    out_bytes = _count_result_bytes(rows, columns, dtype, limit_bytes)
    room = await _obtain(rooms, _PAGE_BYTES + out_bytes, stack)
    head = make_result_header(rows, columns, dtype)
    answer = room.view[_PAGE_BYTES - len(head) :]
    answer[: len(head)] = head
    out = Operand(room.place, room.offset_bytes + _PAGE_BYTES, rows, columns, dtype)
    return Received(tuple(operands), out, answer, (*used, room))


def _read_headers(content: bytes, count: int) -> tuple[list[NpyHeader], list[int]]:
    """The headers of .npy files that lie behind each other, and where their elements begin."""
    headers, begins, begin = [], [], 0
    for name in NAMES[:count]:
        header = _parse(content[begin : begin + 128]) or parse_header(content[begin:])
        if header is None:
            where = f"it ends inside the .npy header of the {name}" if content[begin:] else name
            limit = f"longer: {where if content[begin:] else f'there is no {name}'}"
            raise BodyLengthWrong("body", f"{len(content)} bytes", limit)
        headers.append(header)
        begins.append(begin + header.offset_bytes)
        begin += header.file_bytes
    if begin != len(content):
        described = ", ".join(map(str, headers))
        limit = f"{begin} bytes, by its .npy headers ({described})"
        raise BodyLengthWrong("body", f"{len(content)} bytes", limit)
    return headers, begins


def _check(
    headers: Sequence[NpyHeader], query: MatmulQuery, limit_bytes: int
) -> tuple[int, int, str]:
    """Check that the matrices fit together; returns the result's rows, columns and type."""
    a, b, *rest = headers
    c = rest[0] if rest else None
    expected_c = query.beta != 0 and c is not None
    problem = check_operands(
        a, b, c, alpha=query.alpha, beta=query.beta if expected_c else 0.0, dtype=query.dtype
    )
    _check_size("matrix size", a.file_bytes, limit_bytes)
    return problem.m, problem.n, problem.dtype


def _check_size(field: str, size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        limit = f"at most {limit_bytes} bytes (max_matrix_bytes)"
        raise BodyTooLarge(field, size_bytes, limit)


def _lay_out(sizes_bytes: Sequence[int]) -> tuple[list[int], int]:
    """Where matrices of these sizes begin, one behind the other, and where they end."""
    places, end = [], 0
    for size_bytes in sizes_bytes:
        places.append(end)
        end += -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return places, end


async def _obtain(rooms: Rooms, size_bytes: int, stack: AsyncExitStack) -> Room:
    hold: RoomHold | None = rooms.try_obtain(size_bytes, "request")
    if hold is None:
        hold = await rooms.obtain(size_bytes, "request")
    stack.callback(hold.release)
    return hold.extent


def _describe(room: Room, place: int, header: NpyHeader) -> Operand:
    offset_bytes = room.offset_bytes + place
    return Operand(
        room.place, offset_bytes, header.rows, header.columns, header.dtype, header.fortran_order
    )


def _count_result_bytes(rows: int, columns: int, dtype: str, limit_bytes: int) -> int:
    size_bytes = NpyHeader(rows, columns, dtype, fortran_order=False, offset_bytes=0).data_bytes
    _check_size("result size", size_bytes, limit_bytes)
    return size_bytes


@lru_cache(maxsize=1024)
def make_result_header(rows: int, columns: int, dtype: str) -> bytes:
    """The header of a result's .npy file."""
    return format_header(rows, columns, dtype, fortran_order=False)


_parse = lru_cache(maxsize=1024)(parse_header)
"""Headers of one shape are the same bytes: most requests have one that was read before."""
