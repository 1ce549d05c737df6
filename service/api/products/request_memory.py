"""Memory of one request, for its operands and its result, until it has its answer."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.service.jobs.operands import Shaped
from wavetrim.service.jobs.stacks import fold
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.storage.memory.intake import Fill
from wavetrim.service.storage.memory.scratch import ScratchMemory

_ALIGNMENT_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Received:
    """The operands of a product, and memory for its result.

    Attributes:
        operands: A, B and, if beta is not 0, C.
        out: The result.
        answer: The result's bytes as they are sent.
        rooms: The memory of all of them.
    """

    operands: Sequence[Operand]
    out: Operand
    answer: memoryview
    rooms: Sequence[Extent]

    def make_request(
        self, *, alpha: float, beta: float, options: PlanOptions, verify: bool
    ) -> RunRequest:
        """The product, for the engine."""
        a, b, *rest = self.operands
        return fold(
            RunRequest(
                job="",
                a=a,
                b=b,
                c=rest[0] if rest else None,
                out=self.out,
                alpha=alpha,
                beta=beta,
                options=options,
                verify=verify,
                reports=False,
            )
        )


class RequestMemory:
    """Takes memory for a request, and counts it against the caller's quota.

    Args:
        scratch: Where memory comes from.
        stack: Releases the memory when it is closed.
        take: Counts bytes against the quota, given those that were taken before; returns a function
            that ends that.
    """

    def __init__(
        self,
        scratch: ScratchMemory,
        stack: AsyncExitStack,
        take: Callable[[int, int], Callable[[], None]],
    ) -> None:
        self._scratch = scratch
        self._stack = stack
        self._take = take
        self._held_bytes = 0

    async def receive(self, size_bytes: int, fill: Fill) -> Extent:
        """Receive the next bytes of a body into memory of their own, which grows with them.

        Args:
            size_bytes: How many.
            fill: Receives the next bytes of the body into a view.

        Raises:
            QuotaReached: The caller may not have as much at once.
            QuotaTooSmall: The request alone may not.
            StorageFull: There is no memory.
        """
        if size_bytes == 0:  # nothing comes, but it has memory
            return await self.obtain(1)
        self._count(size_bytes)
        with closing(self._scratch.open_intake(size_bytes, "request")) as intake:
            extent = await intake.open(fill)
            await intake.fill_rest(fill)
            self._stack.callback(extent.hold("request").release)
            return extent

    async def obtain(self, size_bytes: int) -> Extent:
        """Memory until the request has its answer.

        Raises:
            QuotaReached: The caller may not have as much at once.
            QuotaTooSmall: The request alone may not.
            StorageFull: There is no memory.
        """
        self._count(size_bytes)
        hold = await self._scratch.obtain(size_bytes, "request")
        self._stack.callback(hold.release)
        return hold.extent

    def _count(self, size_bytes: int) -> None:
        self._stack.callback(self._take(size_bytes, self._held_bytes))
        self._held_bytes += size_bytes


def lay_out(sizes_bytes: Sequence[int]) -> tuple[list[int], int]:
    """Where matrices of these sizes begin, one after the other, and where the last one ends."""
    offsets, end = [], 0
    for size_bytes in sizes_bytes:
        offsets.append(end)
        end += -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return offsets, end


def describe_operand(
    room: Extent, begin: int, matrix: Shaped, *, fortran_order: bool = False
) -> Operand:
    """A matrix that begins at a byte of some memory, as the engine finds it."""
    return Operand(
        room.slab, room.offset_bytes + begin, matrix.rows, matrix.columns, matrix.dtype,
        fortran_order, stack=matrix.stack,
    )  # fmt: skip
