"""Writes a body's elements into a file while they arrive."""

import asyncio
import mmap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from anyio import CancelScope

from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import PendingMatrix
from wavetrim.service.storage.matrices.publication import CommitUnclear
from wavetrim.service.threads import run_to_end

BATCH_BYTES: Final = 4 * 2**20
"""Bytes that are collected before a write; chosen: large enough that changing threads is cheap."""


@asynccontextmanager
async def receive_matrix(
    body: BodyReader,
    pending: PendingMatrix,
    head: bytes,
    store: MatrixStore,
    start: memoryview,
) -> AsyncIterator[None]:
    """Receives a matrix into a new file; removes the file when the block fails.

    After a commit that was not answered the file stays and counts until the row decides.

    Args:
        body: The body.
        pending: The matrix, from the store's `begin`.
        head: The first bytes of its file.
        store: Writes the file.
        start: Its first elements, which have come already.

    Raises:
        StorageFull: There is no room for it.
        BodyLengthWrong: The body ends too early.
        StorageFailed: The file cannot be written.
    """
    try:
        await run_to_end(store.begin_file, pending, head)
        if len(start):
            await run_to_end(store.write_part, pending, len(head), start)
        await _copy_to(body, pending, store, len(head) + len(start))
        yield
    except CommitUnclear:
        raise
    except BaseException:
        await run_to_end(store.discard, pending)
        raise


async def _copy_to(
    body: BodyReader, pending: PendingMatrix, store: MatrixStore, offset: int
) -> None:
    """Writes the rest of a matrix into its file as it arrives, off the event loop."""
    loop = asyncio.get_running_loop()
    writing = loop.create_future()
    writing.set_result(None)
    left = pending.size_bytes - offset
    # One is written while the other is filled. Mapped buffers take memory only once filled.
    buffers = [memoryview(mmap.mmap(-1, min(left, BATCH_BYTES))) for _ in range(2)] if left else []
    try:
        while left:
            batch = buffers[0][:left]
            await body.read_into(batch, behind_bytes=left - len(batch))
            await writing
            writing = loop.run_in_executor(None, store.write_part, pending, offset, batch)
            offset += len(batch)
            left -= len(batch)
            buffers.reverse()
        await writing
    finally:
        # A cancelled call must wait for its thread, which still writes.
        with CancelScope(shield=True):
            await asyncio.wait({writing})
