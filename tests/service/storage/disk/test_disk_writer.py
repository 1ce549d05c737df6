"""The thread that writes matrices from memory to disk, on real file systems."""

import errno
import mmap
import os
import random
import zlib

import numpy as np
import pytest

from wavetrim.service.storage.database.write_record import WriteRecord
from wavetrim.service.storage.disk.disk_writer import DiskWriter
from wavetrim.service.storage.disk.file_write import FileWrite
from wavetrim.service.storage.matrices.npy import format_header

SECONDS = 30
SHAPE = (1000, 3001)
HEADER = format_header(*SHAPE, "float32", stored=True)
DATA_BYTES = 4 * SHAPE[0] * SHAPE[1]
SIZE_BYTES = len(HEADER) + DATA_BYTES


@pytest.fixture
def writer():
    opened = DiskWriter(WriteRecord())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def memory():
    """The elements, at a multiple of 4096 in memory."""
    mapped = mmap.mmap(-1, DATA_BYTES)
    mapped[:] = np.random.default_rng(1).bytes(DATA_BYTES)
    return memoryview(mapped)


def begin_file(writer, path):
    """Begin a file and write its header."""
    file = FileWrite(writer, path, SIZE_BYTES)
    file.write(0, memoryview(HEADER))
    return file


def write_all(writer, path, memory, cuts):
    """Write a file in shuffled pieces; returns its checksum."""
    file = begin_file(writer, path)
    pieces = list(zip([0, *cuts], [*cuts, DATA_BYTES], strict=True))
    random.Random(3).shuffle(pieces)
    for begin, end in pieces:
        file.write(len(HEADER) + begin, memory[begin:end])
    return file.finish().result(SECONDS)


def expect_written(path, memory, crc32):
    content = path.read_bytes()
    assert content == HEADER + memory.tobytes()
    assert crc32 == zlib.crc32(content)
    assert np.load(path).shape == SHAPE


@pytest.mark.parametrize("aligned", [True, False])
def test_pieces_of_all_sizes_in_any_order_make_the_file(writer, memory, tmp_path, aligned):
    memory = memory if aligned else memoryview(b" " + memory)[1:]
    few = [1, 2, 4095, 4096, 4097, 9000, 9001, DATA_BYTES - 1]
    many = sorted(random.Random(5).sample(range(1, DATA_BYTES), 300))
    for name, cuts in {"whole": [], "few": few, "many": many}.items():
        path = tmp_path / name
        expect_written(path, memory, write_all(writer, path, memory, cuts))


def test_a_file_that_is_there_is_neither_overwritten_nor_removed(writer, memory, tmp_path):
    (tmp_path / "a").write_text("mine")
    file = begin_file(writer, tmp_path / "a")
    with pytest.raises(FileExistsError):
        file.write(len(HEADER), memory).result(SECONDS)
    with pytest.raises(FileExistsError):
        file.finish().result(SECONDS)
    file.abort().result(SECONDS)
    assert (tmp_path / "a").read_text() == "mine"


class FailingSync:
    """fsync that fails this number of times, as on a disk that has lost what was written."""

    def __init__(self, failures, monkeypatch):
        self.failures = failures
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, file):
        if self.failures:
            self.failures -= 1
            os.ftruncate(file, 0)  # nobody knows what is on the disk now
            raise OSError(errno.EIO, "Input/output error")
        self._sync(file)


def test_after_a_failed_sync_the_bytes_are_written_anew_from_memory(
    writer, memory, tmp_path, monkeypatch
):
    FailingSync(1, monkeypatch)
    crc32 = write_all(writer, tmp_path / "a", memory, [10, 5_000_000])
    expect_written(tmp_path / "a", memory, crc32)


def test_a_sync_that_fails_again_is_told_and_leaves_no_file(writer, memory, tmp_path, monkeypatch):
    FailingSync(2, monkeypatch)
    file = begin_file(writer, tmp_path / "a")
    file.write(len(HEADER), memory)
    with pytest.raises(OSError, match="Input/output"):
        file.finish().result(SECONDS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "nothing"])
def test_a_file_is_stored_right_whatever_was_put_in_its_place_meanwhile(
    writer, memory, tmp_path, kind
):
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
