"""A body's elements, written into a file while they arrive."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from anyio import CancelScope

from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import PendingMatrix
from wavetrim.service.storage.npy import NpyHeader
from wavetrim.service.threads import run_to_end

BATCH_BYTES: Final = 4 * 2**20
"""So much is collected before it is written: large enough that switching threads costs nothing."""


async def copy_to(body: BodyReader, path: Path, offset: int, count: int) -> None:
    """Takes `count` bytes and writes them into a file, off the event loop, as they arrive.

    Args:
        body: The body.
        path: An existing file.
        offset: Where in the file they begin.
        count: How many, at least 1.

    Raises:
        BodyLengthWrong: The body ends before.
        OSError: The file cannot be written.
    """
    loop = asyncio.get_running_loop()
    writing = loop.create_future()
    writing.set_result(None)
    # One is written while the other is filled.
    buffers = [memoryview(bytearray(min(count, BATCH_BYTES))) for _ in range(2)]
    left = count
    try:
        while left:
            batch = buffers[0][:left]
            await body.read_into(batch, behind_bytes=left - len(batch))
            await writing
            writing = loop.run_in_executor(None, _write, path, offset, batch)
            offset += len(batch)
            left -= len(batch)
            buffers.reverse()
        await writing
    finally:
        # A cancelled call must not leave before its thread, which still writes.
        with CancelScope(shield=True):
            await asyncio.wait({writing})


@asynccontextmanager
async def receive_matrix(
    body: BodyReader, header: NpyHeader, store: MatrixStore
) -> AsyncIterator[PendingMatrix]:
    """Takes the elements behind a header into a new file; removes it when the block fails.

    Args:
        body: The body; `header` was the last that was taken from it.
        header: What the elements are.
        store: Makes the file.

    Raises:
        BodyTooLarge: The file would be larger than one matrix may be.
        StorageFull: There is no room for it.
        BodyLengthWrong: The body ends before.
    """
    pending = await run_to_end(
        store.allocate,
        header.rows,
        header.columns,
        header.dtype,
        fortran_order=header.fortran_order,
    )
    try:
        await copy_to(body, pending.path, pending.offset_bytes, header.data_bytes)
        yield pending
    except BaseException:
        await run_to_end(store.discard, pending)
        raise


def _write(path: Path, offset: int, content: memoryview) -> None:
    """Writes into an existing file."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        while content:
            # The kernel takes less only at its own limits or next to a full disk.
            written = os.pwrite(file, content, offset)
            content, offset = content[written:], offset + written
    finally:
        os.close(file)
