"""A result on its way to the disk while its rows are computed."""

import asyncio
import os
import threading
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import wait_until
from wavetrim.service.jobs.result import ArenaResult
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.disk.disk_writer import MOST_WAITING_BYTES, DiskWriter
from wavetrim.service.storage.matrices.draft import WRITE_BYTES, Draft, find_pieces
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import PendingMatrix
from wavetrim.service.storage.matrices.residents import Residents

ROWS, COLUMNS = 1200, 3001
ROW_BYTES = 4 * COLUMNS


@asynccontextmanager
async def keeping(
    folder: Path, *, most_waiting_bytes: int = MOST_WAITING_BYTES
) -> AsyncIterator[tuple[KeptMatrices, MatrixStore, Arena]]:
    database = open_database(f"sqlite:///{folder / 'wavetrim.db'}")
    store = MatrixStore(
        database, folder / "matrices", max_matrix_bytes=2**30, max_storage_bytes=2**30
    )
    arena = Arena(limit_bytes=2**26, poison=True)
    await arena.start()
    residents, writer = Residents(), DiskWriter(most_waiting_bytes=most_waiting_bytes)
    yield KeptMatrices(store, arena, residents, writer), store, arena
    writer.close()
    residents.clear()
    await arena.close()
    database.dispose()


def fill(draft: Draft, rows: range, seed: int) -> None:
    """Compute some rows."""
    elements = np.frombuffer(draft.view, np.float32, offset=draft.pending.offset_bytes)
    product = np.random.default_rng(seed).random((ROWS, COLUMNS), np.float32)
    elements.reshape(ROWS, COLUMNS)[rows.start : rows.stop] = product[rows.start : rows.stop]


def count_written(path: Path) -> int:
    """Bytes of a file that were written, not only reserved.

    It is not read: that would leave in the page cache what the disk had before a direct write.
    """
    written = end = 0
    with path.open("rb") as file, suppress(OSError):  # there is no data after the last byte
        while True:
            begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            written += end - begin
    return written


@given(rows=st.integers(1, 3000), row_bytes=st.integers(1, 20_000), data=st.data())
def test_a_piece_is_written_when_all_of_its_rows_are_final(
    rows: int, row_bytes: int, data: st.DataObject
) -> None:
    size = 4096 + rows * row_bytes
    pending = PendingMatrix("m", rows, row_bytes, "int8", False, 4096, size, Path("m.part"))
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    for piece in find_pieces(pending, range(start, stop)):
        first = piece * WRITE_BYTES
        last = min(first + WRITE_BYTES, size)
        assert start == 0 or first >= 4096 + start * row_bytes
        assert last <= 4096 + stop * row_bytes
    assert list(find_pieces(pending, range(rows))) == list(range(-(-size // WRITE_BYTES)))


def test_rows_that_are_final_are_written_before_the_others_are_computed(tmp_path: Path) -> None:
    async def write() -> None:
        async with keeping(tmp_path) as (kept, _, _):
            draft = await kept.begin(ROWS, COLUMNS, "float32")
            assert draft is not None
            assert draft.file is not None
            fill(draft, range(700), seed=1)
            draft.write_final([range(700)])
            draft.write_final([range(700)])  # nothing is written twice
            await asyncio.to_thread(
                wait_until, lambda: count_written(draft.pending.path) >= WRITE_BYTES
            )
            assert draft.view[-1] == draft.view[-ROW_BYTES]  # poison: the rest is not there yet
            fill(draft, range(700, ROWS), seed=1)
            draft.write_final([range(700), range(900, ROWS)])
            await draft.write_rest()
            matrix = await kept.publish(draft)
            content = matrix.path.read_bytes()
            assert content == bytes(draft.view)
            assert matrix.crc32 == zlib.crc32(content)
            expected = np.random.default_rng(1).random((ROWS, COLUMNS), np.float32)
            assert np.array_equal(np.load(matrix.path), expected)

    asyncio.run(write())


def test_what_an_earlier_try_has_written_is_not_in_the_file(tmp_path: Path) -> None:
    async def write() -> None:
        async with keeping(tmp_path) as (kept, store, _):
            draft = await kept.begin(ROWS, COLUMNS, "float32")
            assert draft is not None
            for seed in (1, 2, 3):
                draft.begin_anew()
                fill(draft, range(ROWS), seed=seed)
                draft.write_final([range(100 * seed, ROWS)])
            await draft.write_rest()
            matrix = await kept.publish(draft)
            expected = np.random.default_rng(3).random((ROWS, COLUMNS), np.float32)
            assert np.array_equal(np.load(matrix.path), expected)
            assert matrix.crc32 == zlib.crc32(matrix.path.read_bytes())
            assert [path.name for path in store.folder.iterdir()] == [matrix.path.name]
            assert store.count_stored_bytes() == matrix.size_bytes

    asyncio.run(write())


def test_a_result_that_is_given_up_after_some_rows_leaves_no_file(tmp_path: Path) -> None:
    async def write() -> None:
        async with keeping(tmp_path) as (kept, store, arena):
            draft = await kept.begin(ROWS, COLUMNS, "float32")
            assert draft is not None
            fill(draft, range(ROWS), seed=1)
            draft.write_final([range(ROWS)])
            await asyncio.wrap_future(draft.discard())
            store.release(draft.pending)
            assert list(store.folder.iterdir()) == []
            assert arena.describe().used_bytes == 0

    asyncio.run(write())


def test_a_result_in_memory_is_written_nowhere(tmp_path: Path) -> None:
    async def write() -> None:
        async with keeping(tmp_path) as (kept, store, _):
            draft = await kept.begin(ROWS, COLUMNS, "float32", on_disk=False)
            assert draft is not None
            draft.write_final([range(ROWS)])
            draft.begin_anew()
            await draft.write_rest()
            await kept.publish(draft)
            assert list(store.folder.iterdir()) == []

    asyncio.run(write())


def test_a_matrix_in_memory_that_is_deleted_as_soon_as_it_is_there_leaves_no_memory(
    tmp_path: Path,
) -> None:
    async def write() -> None:
        async with keeping(tmp_path) as (kept, store, arena):
            draft = await kept.begin(ROWS, COLUMNS, "float32", on_disk=False)
            assert draft is not None
            publish = asyncio.ensure_future(kept.publish(draft))
            for _ in range(3):
                await asyncio.sleep(0)
            # Now a thread publishes it, and this one deletes it before the event loop is told.
            wait_until(lambda: bool(store.page()[0]))
            store.delete(draft.pending.id)
            await publish
            assert arena.describe().used_bytes == 0

    asyncio.run(write())


def test_a_result_whose_publication_is_cancelled_before_it_is_written_leaves_nothing(
    tmp_path: Path,
) -> None:
    async def write() -> None:
        async with keeping(tmp_path, most_waiting_bytes=1) as (kept, store, arena):
            draft = await kept.begin(ROWS, COLUMNS, "float32")
            assert draft is not None
            assert draft.file is not None
            goes_on = threading.Event()
            draft.file._writer.add(goes_on.wait, size_bytes=1)  # now the writer has no room
            result = ArenaResult(store, kept, draft)
            publish = asyncio.ensure_future(result.publish(lambda _connection: None))
            await asyncio.sleep(0.05)
            publish.cancel()
            asyncio.get_running_loop().call_later(0.05, goes_on.set)
            with pytest.raises(asyncio.CancelledError):
                await publish
            await result.end()
            await asyncio.to_thread(wait_until, lambda: arena.describe().used_bytes == 0)
            assert list(store.folder.iterdir()) == []
            assert store.count_stored_bytes() == 0

    asyncio.run(write())
