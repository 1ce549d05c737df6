"""What is written to disk, on real file systems: by a thread from memory, in final pieces.

Small files that share their syncs outlive what loses them before the disk has them.
"""

import ctypes
import errno
import mmap
import os
import random
import sqlite3
import zlib
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from tests.matrices import make_matrix
from tests.service.drafts import add_row
from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.database.tables import unsynced_files
from wavetrim.service.storage.disk.disk_writer import WRITE_BYTES, DiskWriter, FileWrite
from wavetrim.service.storage.disk.unsynced_files import UnsyncedFiles, add_contents
from wavetrim.service.storage.matrices.draft import find_pieces
from wavetrim.service.storage.matrices.npy import Layout

SECONDS = 30
SIZE_BYTES = 3 * WRITE_BYTES + 5000


@pytest.fixture
def writer(sqlite):
    commits = SharedCommits(sqlite)
    opened = DiskWriter(commits)
    yield opened
    opened.close()
    commits.close()


@pytest.fixture(scope="module")
def memory():
    """At a multiple of 4096."""
    mapped = mmap.mmap(-1, SIZE_BYTES)
    mapped[:] = np.random.default_rng(1).bytes(SIZE_BYTES)
    return memoryview(mapped)


def write_all(writer, path, memory):
    """Write a file in shuffled pieces, and give it its name."""
    file = FileWrite(writer, path.with_suffix(".part"), memory, lambda _: nullcontext())
    pieces = list(range(file.piece_count))
    random.Random(3).shuffle(pieces)
    for piece in pieces:
        file.write(piece).result(SECONDS)
    return file


def expect_written(file, path, memory):
    crc32 = file.finish(path).result(SECONDS)
    assert path.read_bytes() == memory
    assert crc32 == zlib.crc32(memory)


@pytest.mark.parametrize(
    "size_bytes", [1, 4096, 4097, WRITE_BYTES, WRITE_BYTES + 4096, 2 * WRITE_BYTES - 1, SIZE_BYTES]
)
def test_pieces_in_any_order_make_the_file(writer, memory, tmp_path, size_bytes):
    part = memory[:size_bytes]
    expect_written(write_all(writer, tmp_path / "a", part), tmp_path / "a", part)


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
    expect_written(write_all(writer, tmp_path / "a", memory), tmp_path / "a", memory)


def test_a_sync_that_fails_again_is_told_and_leaves_no_file(writer, memory, tmp_path, monkeypatch):
    FailingSync(2, monkeypatch)
    file = write_all(writer, tmp_path / "a", memory)
    with pytest.raises(OSError, match="Input/output"):
        file.finish(tmp_path / "a").result(SECONDS)
    assert not list(tmp_path.glob("a*"))


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "nothing"])
def test_a_file_is_stored_right_whatever_was_put_in_its_place_meanwhile(
    writer, memory, tmp_path, kind
):
    (tmp_path / "folder").mkdir()
    path, foreign = tmp_path / "folder" / "a.part", tmp_path / "foreign"
    foreign.write_bytes(bytes(SIZE_BYTES))
    file = write_all(writer, path, memory)
    path.unlink()
    if kind == "file":
        path.write_bytes(bytes(SIZE_BYTES))
    elif kind == "link":
        path.symlink_to(foreign)
    elif kind == "pipe":
        os.mkfifo(path)
    expect_written(file, path.with_suffix(".npy"), memory)
    assert foreign.read_bytes() == bytes(SIZE_BYTES)


@given(rows=st.integers(1, 3000), row_bytes=st.integers(1, 20_000), data=st.data())
def test_a_piece_is_written_when_all_of_its_rows_are_final(rows, row_bytes, data):
    size = 4096 + rows * row_bytes
    layout = Layout(rows, row_bytes, "int8", offset_bytes=4096)
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    for piece in find_pieces(layout, range(start, stop)):
        first = piece * WRITE_BYTES
        last = min(first + WRITE_BYTES, size)
        assert start == 0 or first >= 4096 + start * row_bytes
        assert last <= 4096 + stop * row_bytes
    assert list(find_pieces(layout, range(rows))) == list(range(-(-size // WRITE_BYTES)))


CONTENT = bytes(range(250)) * 40


def list_unsynced(server):
    """The matrices whose bytes the database has, while no service runs."""
    database = sqlite3.connect(server.data_dir / "wavetrim.db")
    try:
        return {name for (name,) in database.execute("SELECT matrix FROM unsynced_files")}
    finally:
        database.close()


def test_what_was_promised_outlives_a_power_cut_before_the_sync(start_server):
    running = start_server()
    a = make_matrix(64, 64, "float32", seed=3)
    while True:
        stored = running.upload(a)
        job = running.wait_job(running.post_job(stored, stored))
        running.kill()
        lost = {stored, job["result"]}
        if lost <= list_unsynced(running):  # else they were synced before the service was killed
            break
        running.restart()
    # What a power cut may leave of files that were not synced.
    gone, zeros = (running.data_dir / "matrices" / f"{name}.npy" for name in sorted(lost))
    gone.unlink()
    zeros.write_bytes(bytes(zeros.stat().st_size))
    running.restart()
    assert np.array_equal(running.download(f"/v1/matrices/{stored}/data"), a)
    square = running.download(f"/v1/jobs/{job['id']}/result")
    np.testing.assert_allclose(square, a @ a, rtol=1e-4)
    assert running.stop() == 0
    assert list_unsynced(running) == set()


def test_after_a_failed_sync_files_are_written_anew_from_the_database(tmp_path, monkeypatch):
    database = open_database(f"sqlite:///{tmp_path / 'a.db'}")
    commits = SharedCommits(database)
    files = UnsyncedFiles(database, commits, tmp_path)
    files.start()
    assert files.takes(len(CONTENT))
    with database.begin() as connection:
        add_row(connection, "some", size_bytes=len(CONTENT))
        add_contents(connection, [("some", memoryview(CONTENT))])
    files.note_added(len(CONTENT))
    (tmp_path / "some.npy").write_bytes(b"what the disk has made of it")
    with monkeypatch.context() as patched:  # a disk that did not write what it was given
        patched.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(syncfs=lambda _: -1))
        files.sync()
    assert (tmp_path / "some.npy").read_bytes() == CONTENT
    with reading(database) as connection:
        assert connection.scalar(select(func.count()).select_from(unsynced_files)) == 0
    files.close()
    commits.close()
    database.dispose()
