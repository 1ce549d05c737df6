"""A result on its way to the disk while its rows are computed."""

import asyncio
import os
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import wait_until
from wavetrim.service.storage.arena.arena import Arena
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.disk.disk_writer import WRITE_BYTES, DiskWriter
from wavetrim.service.storage.matrices.draft import Draft, find_pieces
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix

ROWS, COLUMNS = 1200, 3001
ROW_BYTES = 4 * COLUMNS


@asynccontextmanager
async def running_store(folder: Path) -> AsyncIterator[tuple[MatrixStore, Arena]]:
    database = open_database(f"sqlite:///{folder / 'wavetrim.db'}")
    arena, writer = Arena(limit_bytes=2**26, poison=True), DiskWriter()
    store = MatrixStore(
        database, folder / "matrices", max_matrix_bytes=2**30, max_storage_bytes=2**30,
        arena=arena, writer=writer,
    )  # fmt: skip
    await arena.start()
    yield store, arena
    writer.close()
    store.cache.clear()
    await arena.close()
    database.dispose()


async def begin(store: MatrixStore, *, on_disk: bool = True) -> Draft:
    return await store.drafts.begin(
        store.drafts.describe(ROWS, COLUMNS, "float32"), on_disk=on_disk
    )


def fill(draft: Draft, rows: range, seed: int) -> None:
    """Compute some rows."""
    elements = np.frombuffer(draft.view, np.float32, offset=draft.matrix.offset_bytes)
    product = np.random.default_rng(seed).random((ROWS, COLUMNS), np.float32)
    elements.reshape(ROWS, COLUMNS)[rows.start : rows.stop] = product[rows.start : rows.stop]


def count_written(path: Path) -> int:
    """Bytes of a file that were written, not only reserved."""
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
    matrix = Matrix("m", rows, row_bytes, "int8", False, 4096, size, Path("m.npy"))
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    for piece in find_pieces(matrix, range(start, stop)):
        first = piece * WRITE_BYTES
        last = min(first + WRITE_BYTES, size)
        assert start == 0 or first >= 4096 + start * row_bytes
        assert last <= 4096 + stop * row_bytes
    assert list(find_pieces(matrix, range(rows))) == list(range(-(-size // WRITE_BYTES)))


def test_rows_that_are_final_are_written_before_the_others_are_computed(tmp_path: Path) -> None:
    async def write() -> None:
        async with running_store(tmp_path) as (store, _):
            draft = await begin(store)
            assert draft.file is not None
            fill(draft, range(700), seed=1)
            draft.write_final([range(700)])
            draft.write_final([range(700)])  # nothing is written twice
            await asyncio.to_thread(
                wait_until, lambda: count_written(draft.matrix.unfinished) >= WRITE_BYTES
            )
            assert draft.view[-1] == draft.view[-ROW_BYTES]  # poison: the rest is not there yet
            fill(draft, range(700, ROWS), seed=1)
            draft.write_final([range(700), range(900, ROWS)])
            await draft.write_rest()
            matrix = await draft.publish()
            content = matrix.path.read_bytes()
            assert content == bytes(draft.view)
            assert matrix.crc32 == zlib.crc32(content)
            expected = np.random.default_rng(1).random((ROWS, COLUMNS), np.float32)
            assert np.array_equal(np.load(matrix.path), expected)

    asyncio.run(write())


def test_what_an_earlier_try_has_written_is_not_in_the_file(tmp_path: Path) -> None:
    async def write() -> None:
        async with running_store(tmp_path) as (store, _):
            draft = await begin(store)
            for seed in (1, 2, 3):
                draft.begin_anew()
                fill(draft, range(ROWS), seed=seed)
                draft.write_final([range(100 * seed, ROWS)])
            await draft.write_rest()
            matrix = await draft.publish()
            expected = np.random.default_rng(3).random((ROWS, COLUMNS), np.float32)
            assert np.array_equal(np.load(matrix.path), expected)
            assert matrix.crc32 == zlib.crc32(matrix.path.read_bytes())
            assert [path.name for path in store.folder.iterdir()] == [matrix.path.name]
            assert store.space.count() == matrix.size_bytes

    asyncio.run(write())


def test_a_matrix_in_memory_that_is_deleted_as_soon_as_it_is_there_leaves_no_memory(
    tmp_path: Path,
) -> None:
    async def write() -> None:
        async with running_store(tmp_path) as (store, arena):
            draft = await begin(store, on_disk=False)
            publish = asyncio.ensure_future(draft.publish())
            for _ in range(3):
                await asyncio.sleep(0)
            # Now a thread publishes it, and this one deletes it before the event loop is told.
            wait_until(lambda: bool(store.page()[0]))
            store.delete(draft.matrix.id)
            await publish
            assert arena.describe()["used_bytes"] == 0

    asyncio.run(write())
