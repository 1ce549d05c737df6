"""Where the tensors of a request lie while its products are computed.

Small tensors and their result share one piece of memory. Larger ones are each received into memory
of their own.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.service.api.products.request_memory import RequestMemory, lay_out
from wavetrim.service.api.v2.datatypes import Array
from wavetrim.service.api.v2.request import InferRequest
from wavetrim.service.api.v2.stack import Matrix
from wavetrim.service.api.wire.body_source import SMALL_BODY_BYTES
from wavetrim.service.errors import BodyTooLarge
from wavetrim.service.storage.memory.intake import copy_bytes
from wavetrim.service.storage.memory.room import Room

_SMALL_BYTES: Final = 2 * SMALL_BODY_BYTES


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies.

    Attributes:
        room: The memory.
        begin: Where it begins there.
    """

    room: Room
    begin: int

    def find(self, matrix: Matrix, product: int) -> Operand:
        """The matrix of one product in this tensor."""
        offset_bytes = self.room.offset_bytes + self.begin + product * matrix.step_bytes
        return Operand(self.room.place, offset_bytes, matrix.rows, matrix.columns, matrix.dtype)


@dataclass(frozen=True, slots=True)
class Placed:
    """A request whose tensors are in memory, with memory for its result.

    Attributes:
        request: The request.
        tensors: Where each input lies, by its name.
        out: Where the result will lie.
    """

    request: InferRequest
    tensors: dict[str, Place]
    out: Place

    @property
    def rooms(self) -> tuple[Room, ...]:
        """All memory, each room once."""
        used = [*(place.room for place in self.tensors.values()), self.out.room]
        return tuple({id(room): room for room in used}.values())

    @property
    def result(self) -> memoryview:
        """The result's bytes."""
        begin = self.out.begin
        return self.out.room.view[begin : begin + self.request.stack.result_bytes]

    def list_runs(self) -> Iterator[RunRequest]:
        """Each product of the stack, for the engine."""
        request, stack = self.request, self.request.stack
        problem = stack.problem
        out = Matrix(problem.m, problem.n, problem.dtype, stack.out_bytes)
        for product in range(stack.products):
            yield RunRequest(
                job="",
                a=self.tensors["A"].find(stack.a, product),
                b=self.tensors["B"].find(stack.b, product),
                c=None if stack.c is None else self.tensors["C"].find(stack.c, product),
                out=self.out.find(out, product),
                alpha=request.alpha,
                beta=request.beta,
                options=request.options,
                verify=request.verify,
                reports=False,
            )


ReadInto = Callable[[memoryview], Awaitable[None]]
"""Reads the next bytes after the head into a view, until it is full."""


async def place_tensors(
    request: InferRequest,
    memory: RequestMemory,
    read_into: ReadInto,
    *,
    limit_bytes: int,
) -> Placed:
    """Bring the tensors of a request into memory, and make room for the result.

    Args:
        request: The request.
        memory: Its memory.
        read_into: Reads the binary data.
        limit_bytes: The largest tensor that is received or sent.

    Raises:
        BodyTooLarge: A tensor or the result is too large.
        QuotaReached: The caller may not have as much at once.
        StorageFull: There is no memory for them.
    """
    sizes, result_bytes = request.sizes_bytes, request.stack.result_bytes
    if max(*sizes, result_bytes) > limit_bytes:
        raise _describe_largest(request, limit_bytes)
    if sum(sizes) + result_bytes <= _SMALL_BYTES:
        places = await _place_together(request, memory, read_into)
    else:
        places = await _place_apart(request, memory, read_into)
    tensors = {one.name: place for one, place in zip(request.inputs, places, strict=False)}
    return Placed(request, tensors, places[-1])


async def _place_together(
    request: InferRequest, memory: RequestMemory, read_into: ReadInto
) -> list[Place]:
    """Bring all inputs into one piece of memory, with the result at its end."""
    begins, total_bytes = lay_out([*request.sizes_bytes, request.stack.result_bytes])
    room = await memory.obtain(max(1, total_bytes))
    for tensor, begin, size_bytes in zip(request.inputs, begins, request.sizes_bytes, strict=False):
        view = room.view[begin : begin + size_bytes]
        if tensor.values is None:
            await read_into(view)
        else:
            _copy(tensor.values, view)
    return [Place(room, begin) for begin in begins]


async def _place_apart(
    request: InferRequest, memory: RequestMemory, read_into: ReadInto
) -> list[Place]:
    """Bring each input into memory of its own; the result's comes last."""
    places = []
    for tensor, size_bytes in zip(request.inputs, request.sizes_bytes, strict=True):
        if tensor.values is None:
            room = await memory.receive(size_bytes, read_into)
        else:
            room = await memory.obtain(max(1, size_bytes))
            _copy(tensor.values, room.view[:size_bytes])
        places.append(Place(room, 0))
    places.append(Place(await memory.obtain(max(1, request.stack.result_bytes)), 0))
    return places


def _describe_largest(request: InferRequest, limit_bytes: int) -> BodyTooLarge:
    """The refusal of a request's largest tensor."""
    sizes = {f"size of {one.name}": one.size_bytes for one in request.inputs}
    sizes["result size"] = request.stack.result_bytes
    name = max(sizes, key=lambda name: sizes[name])
    limit = f"at most {limit_bytes} bytes (max_matrix_bytes)"
    return BodyTooLarge(name, sizes[name], limit)


def _copy(values: Array, view: memoryview) -> None:
    copy_bytes(view, values.reshape(-1).view("u1").data)
