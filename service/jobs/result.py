"""A job's product while it is computed: in the arena, or in a mapped file if the arena is full."""

from collections.abc import Sequence
from typing import Final, Protocol

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.service.storage.matrices.draft import Draft
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import PendingMatrix
from wavetrim.service.storage.matrices.publication import CommitUnclear, Settle
from wavetrim.service.storage.memory.room import Room
from wavetrim.service.threads import run_to_end

_STEP_BYTES: Final = 8 * 2**20
"""Final bytes of a result on disk after which the engine sends a message about them."""


class Result(Protocol):
    """A product that is not published yet.

    Attributes:
        id: Id of the matrix that it will be.
        operand: Where the engine writes it.
        rooms: The memory that it lies in; none for a file.
        row_step: Rows between two messages of the engine that tell which are final; 0 for none.
    """

    id: str
    operand: Operand
    rooms: tuple[Room, ...]
    row_step: int

    def begin_try(self) -> None:
        """All rows will be computed, even those that an earlier try finished."""

    def take_final(self, rows: Sequence[range]) -> None:
        """These are all rows of this try that will not change any more."""

    async def publish(self, settle: Settle) -> None:
        """Make it a matrix, in the transaction that `settle` completes."""

    async def end(self) -> None:
        """Let go of it; unless it was published, nothing of it remains."""


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
        row_bytes = draft.pending.size_bytes // max(1, draft.pending.rows)
        self.row_step = 0 if draft.file is None else -(-_STEP_BYTES // row_bytes)

    def begin_try(self) -> None:
        """Give up what was written of an earlier try."""
        self._draft.begin_anew()

    def take_final(self, rows: Sequence[range]) -> None:
        """Write them to disk while others are computed."""
        self._draft.write_final(rows)

    async def publish(self, settle: Settle) -> None:
        """Write the rest to disk, if it is kept there, and make it a matrix."""
        await self._draft.write_rest()
        self._ended = True  # whatever happens now, `kept` ends the draft
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
        self._is_unclear = False
        self.id = pending.id
        self.operand = Operand(**pending.operand())
        self.rooms: tuple[Room, ...] = ()
        self.row_step = 0

    def begin_try(self) -> None:
        """Nothing to do: rows are overwritten in place."""

    def take_final(self, rows: Sequence[range]) -> None:
        """Nothing to do: they lie in the file."""

    async def publish(self, settle: Settle) -> None:
        """Make the file durable, and a matrix."""
        await run_to_end(self._publish, settle)

    async def end(self) -> None:
        """Remove the file, unless it has become a matrix, or may have."""
        if not self._is_unclear:
            await run_to_end(self._store.discard, self._pending)

    def _publish(self, settle: Settle) -> None:
        try:
            self._store.publish(self._pending, settle=settle)
        except CommitUnclear:
            self._is_unclear = True  # the file stays and counts until the row decides
            raise


async def begin_result(
    store: MatrixStore,
    kept: KeptMatrices,
    shape: tuple[int, int, str],
    *,
    storage: str,
    owner: str,
) -> Result:
    """Make room for a product.

    Args:
        store: Files and rows.
        kept: The arena.
        shape: Rows, columns, and name of the element type.
        storage: Where it is kept: "disk" or "memory".
        owner: Name of the tenant whose it will be.

    Raises:
        StorageFull: There is no room.
        BodyTooLarge: It would be larger than a matrix may be.
    """
    draft = await kept.begin(*shape, on_disk=storage == "disk", owner=owner)
    if draft is not None:
        return ArenaResult(store, kept, draft)
    return FileResult(store, await run_to_end(store.allocate, *shape, owner=owner))
