"""Small files that share their syncs outlive what loses them before the disk has them."""

import ctypes
import sqlite3
from types import SimpleNamespace

import numpy as np
from sqlalchemy import func, select

from tests.matrices import make_matrix
from tests.service.drafts import add_row
from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.database.tables import unsynced_files
from wavetrim.service.storage.disk.unsynced_files import UnsyncedFiles, add_contents

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
