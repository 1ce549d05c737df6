"""The body of a product in one call: .npy files one after the other, received where they are used.

A file with three dimensions is a stack of matrices, of which each has its product.

All matrices of a short body and the result share one piece of memory. In a longer body each matrix
is received into memory of its own.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.api.products.request_memory import (
    Received,
    RequestMemory,
    describe_operand,
    lay_out,
)
from wavetrim.service.api.schemas import MatmulQuery
from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge
from wavetrim.service.jobs.operands import check_operands
from wavetrim.service.storage.matrices.matrix import count_data_bytes
from wavetrim.service.storage.matrices.npy import NpyHeader, format_header, parse_header
from wavetrim.service.storage.memory.extent import Extent

NAMES: Final = (
    "first matrix, A",
    "second matrix, B, after the first one in the same body",
    "third matrix, C, after the second one in the same body (beta is not 0)",
)
"""Names of the matrices of a body in a refusal."""

_HEADER_BYTES: Final = 128
"""The usual length of headers that NumPy writes for matrices."""

_PAGE_BYTES: Final = 4096


class ProductReceiver:
    """Receives the operands of a product and makes room for its result.

    Args:
        body: The body; nothing of it has been read.
        query: The request's query.
        memory: The request's memory.
        limit_bytes: The largest .npy file that is received or sent.
    """

    def __init__(
        self,
        body: BodyReader,
        query: MatmulQuery,
        memory: RequestMemory,
        *,
        limit_bytes: int,
    ) -> None:
        self._body = body
        self._query = query
        self._memory = memory
        self._limit_bytes = limit_bytes
        self._names = NAMES if query.beta != 0 else NAMES[:2]

    async def receive(self) -> Received:
        """Receive the whole body.

        Raises:
            NpyError: A matrix is not a .npy file that the service accepts.
            BodyLengthWrong: The body is shorter or longer than its headers say.
            FieldProblem: The matrices do not fit together, or one is too large.
            StorageFull: There is no memory for them.
            QuotaReached: The caller may not have as much at once.
        """
        length = self._body.length_bytes
        if length is None or length > SMALL_BODY_BYTES:
            return await self._receive_large()
        content = await self._body.read_rest(length)
        await self._body.finish(len(content))
        return await self._place_small(content)

    async def _place_small(self, content: bytes) -> Received:
        """Copy all matrices into one piece of memory."""
        headers, begins = read_headers(content, self._names)
        shape = self._check(headers)
        places, total_bytes = lay_out([header.data_bytes for header in headers])
        size_bytes = len(_make_head(shape)) + self._count_result_bytes(shape)
        room = await self._memory.obtain(total_bytes + size_bytes)
        view, received = room.view, memoryview(content)
        operands = []
        for header, begin, place in zip(headers, begins, places, strict=True):
            view[place : place + header.data_bytes] = received[begin : begin + header.data_bytes]
            operands.append(
                describe_operand(room, place, header, fortran_order=header.fortran_order)
            )
        return _finish(operands, [room], total_bytes, shape)

    async def _receive_large(self) -> Received:
        """Receive each matrix into memory of its own."""
        headers: list[NpyHeader] = []
        operands: list[Operand] = []
        used: list[Extent] = []
        for name in self._names:
            header, _ = await self._body.read_header(name)
            headers.append(header)
            if len(headers) == 1:
                self._check_size("matrix size", header.file_bytes)
            else:
                shape = self._check(headers)
            if len(headers) == len(self._names):
                total_bytes = sum(header.file_bytes for header in headers)
                described = ", ".join(map(str, headers))
                self._body.expect_length(total_bytes, f".npy headers ({described})")
            room = await self._memory.receive(header.data_bytes, self._body.read_into)
            operands.append(describe_operand(room, 0, header, fortran_order=header.fortran_order))
            used.append(room)
        await self._body.finish(total_bytes)
        used.append(await self._memory.obtain(_PAGE_BYTES + self._count_result_bytes(shape)))
        return _finish(operands, used, _PAGE_BYTES - len(_make_head(shape)), shape)

    def _check(self, headers: Sequence[NpyHeader]) -> "_Shape":
        """The result's shape, if the matrices so far fit together."""
        a, b, *rest = headers
        for header in headers:
            self._check_size("matrix size", header.file_bytes)
        problem, stack = check_operands(
            a,
            b,
            rest[0] if rest else None,
            alpha=self._query.alpha,
            beta=self._query.beta if rest else 0.0,
            dtype=self._query.dtype,
        )
        return _Shape(problem.m, problem.n, problem.dtype, stack)

    def _count_result_bytes(self, shape: "_Shape") -> int:
        size_bytes = count_data_bytes(*shape)
        self._check_size("result size", size_bytes)
        return size_bytes

    def _check_size(self, field: str, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            limit = f"at most {self._limit_bytes} bytes (max_matrix_bytes)"
            raise BodyTooLarge(field, size_bytes, limit)


class _Shape(NamedTuple):
    """The result's sizes and element type; `stack` is None for a single matrix."""

    rows: int
    columns: int
    dtype: str
    stack: int | None


def _finish(operands: list[Operand], rooms: list[Extent], begin: int, shape: _Shape) -> Received:
    """Write the header of the result, whose file begins at a byte of the last room."""
    room, head = rooms[-1], _make_head(shape)
    answer = room.view[begin:]
    answer[: len(head)] = head
    return Received(operands, describe_operand(room, begin + len(head), shape), answer, rooms)


def read_headers(content: bytes, names: Sequence[str]) -> tuple[list[NpyHeader], list[int]]:
    """The headers of .npy files, one after the other, and where their elements begin."""
    headers, begins, begin = [], [], 0
    for name in names:
        header = _parse(content[begin : begin + _HEADER_BYTES]) or parse_header(content[begin:])
        if header is None:
            ends = begin >= len(content)
            where = f"no {name}" if ends else f"it ends inside the .npy header of the {name}"
            raise BodyLengthWrong("body", f"{len(content)} bytes", f"longer: {where}")
        headers.append(header)
        begins.append(begin + header.offset_bytes)
        begin += header.file_bytes
    if begin != len(content):
        described = ", ".join(map(str, headers))
        limit = f"{begin} bytes, by its .npy headers ({described})"
        raise BodyLengthWrong("body", f"{len(content)} bytes", limit)
    return headers, begins


@lru_cache(maxsize=1024)
def _make_head(shape: _Shape) -> bytes:
    """The header of a result's .npy file."""
    return format_header(shape.rows, shape.columns, shape.dtype, stack=shape.stack)


_parse = lru_cache(maxsize=1024)(parse_header)
"""`parse_header` with a cache: headers of one shape are the same bytes, and shapes come again."""
