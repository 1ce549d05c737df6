"""The thread that writes matrices from memory to disk, on real file systems."""

import errno
import mmap
import os
import random
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mounts import mounted_tmpfs
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.disk.checksum import combine
from wavetrim.service.storage.disk.commit_gate import CommitGate
from wavetrim.service.storage.disk.direct_file import BLOCK_BYTES, DirectFile, Extending
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.disk.file_write import FileWrite, WriteAborted
from wavetrim.service.storage.disk.growth import FIRST_STEP_BYTES, MOST_STEP_BYTES, find_next_length
from wavetrim.service.storage.errors import StorageFull
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.npy import DISK_ALIGNMENT_BYTES, format_header, parse_header

SECONDS = 30
SHAPE = (1000, 3001)
HEADER = format_header(*SHAPE, "float32", alignment_bytes=DISK_ALIGNMENT_BYTES)
DATA_BYTES = 4 * SHAPE[0] * SHAPE[1]
SIZE_BYTES = len(HEADER) + DATA_BYTES


@pytest.fixture
def writer() -> Iterator[DiskWriter]:
    opened = DiskWriter()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def memory() -> memoryview:
    """The elements, at a multiple of 4096 in memory."""
    mapped = mmap.mmap(-1, DATA_BYTES)
    mapped[:] = np.random.default_rng(1).bytes(DATA_BYTES)
    return memoryview(mapped)


def begin_file(writer: DiskWriter, path: Path, *, extending: Extending | None = None) -> FileWrite:
    """Begin a file and write its header."""
    file = writer.begin(path, SIZE_BYTES, extending=extending)
    file.write(0, memoryview(HEADER))
    return file


def write_all(
    writer: DiskWriter, path: Path, memory: memoryview, cuts: list[int], *, seed: int | None = None
) -> int:
    """Write a file in pieces, in order or shuffled; returns its checksum."""
    file = begin_file(writer, path)
    pieces = list(zip([0, *cuts], [*cuts, DATA_BYTES], strict=True))
    if seed is not None:
        random.Random(seed).shuffle(pieces)
    for begin, end in pieces:
        file.write(len(HEADER) + begin, memory[begin:end])
    return file.finish().result(SECONDS)


def expect_written(path: Path, memory: memoryview, crc32: int) -> None:
    content = path.read_bytes()
    assert content == HEADER + memory.tobytes()
    assert crc32 == zlib.crc32(content)
    assert np.load(path).shape == SHAPE


@pytest.mark.parametrize("place", ["disk", "tmpfs"])
@pytest.mark.parametrize(
    "cuts",
    [
        [],
        [BLOCK_BYTES, 10 * BLOCK_BYTES],
        [1, 2, 4095, 4096, 4097, 9000, 9001, DATA_BYTES - 1],
        sorted(random.Random(5).sample(range(1, DATA_BYTES), 300)),
    ],
)
def test_pieces_of_all_sizes_in_any_order_make_the_file(
    writer: DiskWriter, memory: memoryview, tmp_path: Path, cuts: list[int], place: str
) -> None:
    if place == "tmpfs":
        folder = Path("/dev/shm") / f"wavetrim-{os.getpid()}-{len(cuts)}"
        folder.mkdir()
    else:
        folder = tmp_path
    try:
        for seed in (None, 1):
            path = folder / f"{seed}.part"
            expect_written(path, memory, write_all(writer, path, memory, cuts, seed=seed))
            path.unlink()
    finally:
        if place == "tmpfs":
            folder.rmdir()


def test_memory_at_any_address_is_written(
    writer: DiskWriter, memory: memoryview, tmp_path: Path
) -> None:
    shifted = memoryview(bytearray(DATA_BYTES + 7))[7:]
    shifted[:] = memory
    crc32 = write_all(writer, tmp_path / "a", shifted, [5_000_000])
    expect_written(tmp_path / "a", memory, crc32)


def test_several_files_are_written_side_by_side(
    writer: DiskWriter, memory: memoryview, tmp_path: Path
) -> None:
    files = [begin_file(writer, tmp_path / f"{n}") for n in range(3)]
    half = DATA_BYTES // 2
    for begin, end in ((0, half), (half, DATA_BYTES)):
        for file in files:
            file.write(len(HEADER) + begin, memory[begin:end])
    for number, file in enumerate(files):
        crc32 = file.finish(tmp_path / f"{number}.npy").result(SECONDS)
        expect_written(tmp_path / f"{number}.npy", memory, crc32)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.npy", "1.npy", "2.npy"]


def test_an_aborted_file_is_gone_and_its_memory_free(
    writer: DiskWriter, memory: memoryview, tmp_path: Path
) -> None:
    file = begin_file(writer, tmp_path / "a")
    pieces: list[Future[None]] = [
        file.write(len(HEADER) + n * BLOCK_BYTES, memory[:BLOCK_BYTES]) for n in range(50)
    ]
    file.abort().result(SECONDS)
    assert all(piece.done() for piece in pieces)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(WriteAborted):
        file.finish().result(SECONDS)


@pytest.mark.parametrize("left_out", [(0, 1), (5000, 9000), (DATA_BYTES - 1, DATA_BYTES)])
def test_a_file_with_a_hole_is_refused_and_removed(
    writer: DiskWriter, memory: memoryview, tmp_path: Path, left_out: tuple[int, int]
) -> None:
    file = begin_file(writer, tmp_path / "a")
    begin, end = left_out
    file.write(len(HEADER), memory[:begin])
    file.write(len(HEADER) + end, memory[end:])
    with pytest.raises(OSError, match="bytes"):
        file.finish().result(SECONDS)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_neither_overwritten_nor_removed(
    writer: DiskWriter, memory: memoryview, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("mine")
    file = begin_file(writer, tmp_path / "a")
    with pytest.raises(FileExistsError):
        file.write(len(HEADER), memory).result(SECONDS)
    with pytest.raises(FileExistsError):
        file.finish().result(SECONDS)
    file.abort().result(SECONDS)
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.needs("mounts")
def test_a_full_disk_is_met_when_the_file_is_made(writer: DiskWriter, memory: memoryview) -> None:
    with mounted_tmpfs("4m") as folder:
        file = begin_file(writer, folder / "a")
        with pytest.raises(OSError, match="No space left") as full:
            file.made.result(SECONDS)
        assert full.value.errno == errno.ENOSPC
        with pytest.raises(OSError, match="No space left"):
            file.write(len(HEADER), memory).result(SECONDS)
        assert list(folder.iterdir()) == []


@given(size=st.integers(1, 2**40), made=st.integers(0, 2**40), more=st.integers(1, 2**24))
def test_a_file_is_made_a_step_ahead_and_never_beyond_its_end(
    size: int, made: int, more: int
) -> None:
    made = min(made, size - 1)
    end = min(made + more, size)
    length = find_next_length(made, end, size)
    assert end <= length <= size
    assert length - end <= min(max(made, FIRST_STEP_BYTES), MOST_STEP_BYTES)
    assert length in (size, end) or length - made >= FIRST_STEP_BYTES


@pytest.mark.parametrize("seed", [None, 4])
def test_a_growing_file_takes_its_blocks_before_they_are_written(
    writer: DiskWriter, memory: memoryview, tmp_path: Path, seed: int | None
) -> None:
    lengths: list[int] = []

    @contextmanager
    def extending(length: int) -> Iterator[None]:
        lengths.append(length)
        yield

    path = tmp_path / "a"
    file = begin_file(writer, path, extending=extending)
    pieces = [range(n, min(n + 10**6, DATA_BYTES)) for n in range(0, DATA_BYTES, 10**6)]
    if seed is not None:
        random.Random(seed).shuffle(pieces)
    for piece in pieces:
        file.write(len(HEADER) + piece.start, memory[piece.start : piece.stop])
    expect_written(path, memory, file.finish().result(SECONDS))
    assert lengths == sorted(set(lengths))
    assert lengths[-1] == SIZE_BYTES
    assert seed is not None or lengths[0] == FIRST_STEP_BYTES


def test_a_growing_file_that_finds_no_room_is_given_up(
    writer: DiskWriter, memory: memoryview, tmp_path: Path
) -> None:
    @contextmanager
    def extending(length: int) -> Iterator[None]:
        if length > FIRST_STEP_BYTES:
            raise StorageFull("matrix size", SIZE_BYTES, "at most 4 MiB")
        yield

    file = begin_file(writer, tmp_path / "a", extending=extending)
    assert file.write(len(HEADER), memory[: 10**6]).result(SECONDS) is None
    assert file.error is None
    with pytest.raises(StorageFull):
        file.write(len(HEADER) + 10**6, memory[10**6 :]).result(SECONDS)
    assert isinstance(file.error, StorageFull)
    assert list(tmp_path.iterdir()) == []


class FailingSync:
    """fsync that fails this number of times, as on a disk that has lost what was written."""

    def __init__(self, failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures = failures
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, file: int) -> None:
        if self.failures:
            self.failures -= 1
            os.ftruncate(file, 0)  # nobody knows what is on the disk now
            raise OSError(errno.EIO, "Input/output error")
        self._sync(file)


def test_after_a_failed_sync_the_bytes_are_written_anew_from_memory(
    writer: DiskWriter, memory: memoryview, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FailingSync(1, monkeypatch)
    crc32 = write_all(writer, tmp_path / "a", memory, [10, 5_000_000], seed=3)
    expect_written(tmp_path / "a", memory, crc32)


def test_a_sync_that_fails_again_is_told_and_leaves_no_file(
    writer: DiskWriter, memory: memoryview, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FailingSync(2, monkeypatch)
    file = begin_file(writer, tmp_path / "a")
    file.write(len(HEADER), memory)
    with pytest.raises(OSError, match="Input/output"):
        file.finish().result(SECONDS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "nothing"])
def test_a_file_is_stored_right_whatever_was_put_in_its_place_meanwhile(
    writer: DiskWriter, memory: memoryview, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "folder").mkdir()
    path, foreign = tmp_path / "folder" / "a", tmp_path / "foreign"
    foreign.write_bytes(bytes(SIZE_BYTES))
    file = begin_file(writer, path)
    file.write(len(HEADER), memory).result(SECONDS)
    path.unlink()
    if kind == "file":
        path.write_bytes(bytes(SIZE_BYTES))
    elif kind == "link":
        path.symlink_to(foreign)
    elif kind == "pipe":
        os.mkfifo(path)
    expect_written(path, memory, file.finish().result(SECONDS))
    assert foreign.read_bytes() == bytes(SIZE_BYTES)


def test_a_write_that_would_fill_the_queue_waits(memory: memoryview, tmp_path: Path) -> None:
    gate = CommitGate()
    writer = DiskWriter(gate=gate, most_waiting_bytes=10_000)
    file = begin_file(writer, tmp_path / "a")
    gate.enter()
    done: list[Any] = []
    caller = threading.Thread(
        target=lambda: done.extend(
            file.write(len(HEADER) + begin, memory[begin : begin + 10_000])
            for begin in range(0, 100_000, 10_000)
        )
    )
    caller.start()
    caller.join(0.02)
    assert len(done) < 10
    gate.leave()
    caller.join(SECONDS)
    assert len(done) == 10
    file.abort().result(SECONDS)
    writer.close()


def test_a_writer_steps_aside_for_a_commit_but_not_for_ever() -> None:
    gate = CommitGate()
    assert gate.wait(0)
    gate.enter()
    assert not gate.wait(0.01)
    threading.Timer(0.05, gate.leave).start()
    assert gate.wait(SECONDS)


def test_a_disk_that_takes_direct_writes_gets_them(tmp_path: Path) -> None:
    file = DirectFile(tmp_path / "a", BLOCK_BYTES, mmap.mmap(-1, BLOCK_BYTES), lambda: None)
    try:
        plain = os.open(tmp_path / "b", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    except OSError:
        assert not file.direct
    else:
        os.close(plain)
        assert file.direct
    file.remove()


def test_checksums_of_pieces_make_that_of_the_whole() -> None:
    content = np.random.default_rng(2).bytes(100_000)
    for cut in (0, 1, 4096, 99_999, 100_000):
        pieces = content[:cut], content[cut:]
        crc32 = combine(zlib.crc32(pieces[0]), zlib.crc32(pieces[1]), len(pieces[1]))
        assert crc32 == zlib.crc32(content)


@pytest.mark.parametrize("dtype", ["int8", "float64"])
def test_a_padded_header_is_read_by_numpy_and_by_us(dtype: str, tmp_path: Path) -> None:
    array = np.arange(15).reshape(3, 5).astype(dtype)
    header = format_header(3, 5, dtype, alignment_bytes=DISK_ALIGNMENT_BYTES)
    assert len(header) == DISK_ALIGNMENT_BYTES
    (tmp_path / "a.npy").write_bytes(header + array.tobytes())
    assert np.array_equal(np.load(tmp_path / "a.npy"), array)
    parsed = parse_header(header)
    assert parsed is not None
    assert (parsed.rows, parsed.columns, parsed.offset_bytes) == (3, 5, DISK_ALIGNMENT_BYTES)


def test_a_reserved_matrix_is_written_by_the_writer_and_published(
    writer: DiskWriter, memory: memoryview, tmp_path: Path
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'wavetrim.db'}")
    store = MatrixStore(
        database, tmp_path / "matrices", max_matrix_bytes=2**30, max_storage_bytes=2**30
    )
    pending, header = store.reserve(*SHAPE, "float32")
    file = writer.begin(pending.path, pending.size_bytes)
    file.write(0, memoryview(header))
    file.made.add_done_callback(lambda _: store.note_made(pending))
    file.write(len(header), memory)
    crc32 = file.finish(pending.path.with_suffix(".npy")).result(SECONDS)
    matrix = store.publish(pending, crc32=crc32, durable=True)
    assert (matrix.crc32, matrix.offset_bytes) == (crc32, DISK_ALIGNMENT_BYTES)
    assert store.count_stored_bytes() == SIZE_BYTES
    expect_written(matrix.path, memory, crc32)
    store.checks.verify(store.get(matrix.id))
    database.dispose()
