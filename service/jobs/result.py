"""A job's product while it is computed: in the arena, or in a mapped file where that is full."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from wavetrim.scheduler.messages import Operand, RunRequest
from wavetrim.service.storage.kept import Draft, KeptMatrices
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import PendingMatrix
from wavetrim.service.storage.room import Room
from wavetrim.service.threads import run_to_end

Settle = Callable[[Connection], None]


class Result(Protocol):
    """A product that is not published yet.

    Attributes:
        id: Id of the matrix that it will be.
        operand: Where the engine writes it.
        rooms: The memory that it lies in; none where that is a file.
    """

    id: str
    operand: Operand
    rooms: tuple[Room, ...]

    async def publish(self, settle: Settle) -> None:
        """Make it a matrix, in the transaction that `settle` completes."""

    async def end(self) -> None:
        """Let go of it: without a trace, unless it was published."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a job's tries have in common.

    Attributes:
        request: The product.
        rooms: The memory that it lies in.
        result: What becomes of it.
    """

    request: RunRequest
    rooms: tuple[Room, ...]
    result: Result


class ArenaResult:
    """A product in the arena."""

    def __init__(self, store: MatrixStore, kept: KeptMatrices, draft: Draft) -> None:
        self._store = store
        self._kept = kept
        self._draft = draft
        self._ended = False
        self.id = draft.pending.id
        self.operand = draft.operand()
        self.rooms: tuple[Room, ...] = (draft.hold.extent,)

    async def publish(self, settle: Settle) -> None:
        """Write it to disk, where that is wanted, and make it a matrix."""
        self._ended = True
        await self._draft.write(0, len(self._draft.view))
        await self._kept.publish(self._draft, settle=settle)

    async def end(self) -> None:
        """Let go of its memory."""
        if not self._ended:
            self._draft.discard()
            self._store.release(self._draft.pending)


class FileResult:
    """A product in a mapped file."""

    def __init__(self, store: MatrixStore, pending: PendingMatrix) -> None:
        self._store = store
        self._pending = pending
        self.id = pending.id
        self.operand = Operand(**pending.operand())
        self.rooms: tuple[Room, ...] = ()

    async def publish(self, settle: Settle) -> None:
        """Make the file durable, and a matrix."""
        await run_to_end(self._store.publish, self._pending, settle=settle)

    async def end(self) -> None:
        """Remove the file, unless it has become a matrix."""
        await run_to_end(self._store.discard, self._pending)


async def begin_result(
    store: MatrixStore, kept: KeptMatrices, shape: tuple[int, int, str], storage: str
) -> Result:
    """Make room for a product.

    Args:
        store: Files and rows.
        kept: The arena.
        shape: Rows, columns, and name of the element type.
        storage: Where it is kept: "disk" or "memory".

    Raises:
        StorageFull: There is none.
        BodyTooLarge: It would be larger than one matrix may be.
    """
    draft = await kept.begin(*shape, on_disk=storage == "disk")
    if draft is not None:
        return ArenaResult(store, kept, draft)
    return FileResult(store, await run_to_end(store.allocate, *shape))
