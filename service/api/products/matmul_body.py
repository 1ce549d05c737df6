"""The body of a product in one call: .npy files one after the other, received where they are used.

All matrices of a short body and the result share one piece of memory. In a longer body each matrix
is received into memory of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.api.products.request_memory import RequestMemory, lay_out
from wavetrim.service.api.schemas import MatmulQuery
from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import BodyLengthWrong, BodyTooLarge
from wavetrim.service.jobs.operands import check_operands
from wavetrim.service.storage.matrices.npy import NpyHeader, format_header, parse_header
from wavetrim.service.storage.memory.room import Room

NAMES: Final = (
    "first matrix, A",
    "second matrix, B, after the first one in the same body",
    "third matrix, C, after the second one in the same body (beta is not 0)",
)
"""Names of the matrices of a body in a refusal."""

_HEADER_BYTES: Final = 128
"""The usual length of headers that NumPy writes for matrices."""

_PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Received:
    """The operands of a product, and memory for its result.

    Attributes:
        operands: A, B and, if beta is not 0, C.
        out: The result.
        answer: The result's bytes as a .npy file.
        rooms: The memory of all of them.
    """

    operands: tuple[Operand, ...]
    out: Operand
    answer: memoryview
    rooms: tuple[Room, ...]


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
        content = await self._body.read_all_small()
        await self._body.finish(len(content))
        return await self._place_small(content)

    async def _place_small(self, content: bytes) -> Received:
        """Copy all matrices into one piece of memory."""
        headers, begins = read_headers(content, self._names)
        problem = self._check(headers)
        places, total_bytes = lay_out([header.data_bytes for header in headers])
        head = make_result_header(problem.m, problem.n, problem.dtype)
        room = await self._memory.obtain(
            total_bytes + len(head) + self._count_result_bytes(problem)
        )
        view, received = room.view, memoryview(content)
        operands = []
        for header, begin, place in zip(headers, begins, places, strict=True):
            view[place : place + header.data_bytes] = received[begin : begin + header.data_bytes]
            operands.append(_describe(room, place, header))
        return _Result(room, total_bytes, head, problem).gather(operands, (room,))

    async def _receive_large(self) -> Received:
        """Receive each matrix into memory of its own."""
        headers: list[NpyHeader] = []
        operands: list[Operand] = []
        used: list[Room] = []
        for name in self._names:
            header, _ = await self._body.read_header(name)
            headers.append(header)
            if len(headers) == 1:
                self._check_size("matrix size", header.file_bytes)
            else:
                problem = self._check(headers)
            if len(headers) == len(self._names):
                total_bytes = sum(header.file_bytes for header in headers)
                described = ", ".join(map(str, headers))
                self._body.expect_length(total_bytes, f".npy headers ({described})")
            room = await self._memory.receive(header.data_bytes, self._body.read_into)
            operands.append(_describe(room, 0, header))
            used.append(room)
        await self._body.finish(total_bytes)
        head = make_result_header(problem.m, problem.n, problem.dtype)
        room = await self._memory.obtain(_PAGE_BYTES + self._count_result_bytes(problem))
        result = _Result(room, _PAGE_BYTES - len(head), head, problem)
        return result.gather(operands, (*used, room))

    def _check(self, headers: Sequence[NpyHeader]) -> GemmProblem:
        """Check that the matrices so far fit together."""
        a, b, *rest = headers
        for header in headers:
            self._check_size("matrix size", header.file_bytes)
        return check_operands(
            a,
            b,
            rest[0] if rest else None,
            alpha=self._query.alpha,
            beta=self._query.beta if rest else 0.0,
            dtype=self._query.dtype,
        )

    def _count_result_bytes(self, problem: GemmProblem) -> int:
        size_bytes = problem.m * problem.c_row_bytes
        self._check_size("result size", size_bytes)
        return size_bytes

    def _check_size(self, field: str, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            limit = f"at most {self._limit_bytes} bytes (max_matrix_bytes)"
            raise BodyTooLarge(field, size_bytes, limit)


@dataclass(frozen=True, slots=True)
class _Result:
    """Where the result's .npy file begins in its memory, and its header."""

    room: Room
    begin: int
    head: bytes
    problem: GemmProblem

    def gather(self, operands: Sequence[Operand], rooms: tuple[Room, ...]) -> Received:
        """Write the header; returns the operands together with the result."""
        answer = self.room.view[self.begin :]
        answer[: len(self.head)] = self.head
        place = self.room.offset_bytes + self.begin + len(self.head)
        out = Operand(self.room.place, place, self.problem.m, self.problem.n, self.problem.dtype)
        return Received(tuple(operands), out, answer, rooms)


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


def _describe(room: Room, place: int, header: NpyHeader) -> Operand:
    offset_bytes = room.offset_bytes + place
    return Operand(
        room.place, offset_bytes, header.rows, header.columns, header.dtype, header.fortran_order
    )


@lru_cache(maxsize=1024)
def make_result_header(rows: int, columns: int, dtype: str) -> bytes:
    """The header of a result's .npy file."""
    return format_header(rows, columns, dtype, fortran_order=False)


_parse = lru_cache(maxsize=1024)(parse_header)
"""`parse_header` with a cache: headers of one shape are the same bytes, and shapes come again."""
