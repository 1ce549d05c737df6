"""A full disk and publications that fail: nothing is left, and what must go on goes on."""

import os
import socket
import threading
from contextlib import suppress

import numpy as np
import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from tests.mounts import mounted_tmpfs
from tests.server import NPY, RunningServer, encode_npy
from tests.service.drafts import begin_draft, keep_matrix, open_store, run
from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.database.tables import matrices
from wavetrim.service.storage.errors import StorageFailed
from wavetrim.service.storage.matrices.rows import CommitUnclear

MIB = 2**20


def count_free_bytes(folder):
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def list_files(store):
    return [path.name for path in store.folder.iterdir()]


@pytest.mark.needs("mounts")
def test_the_reserve_is_never_used_while_everything_else_goes_on():
    content = encode_npy(np.ones((512, 512)))
    with (
        mounted_tmpfs("32m") as disk,
        RunningServer(disk / "data", reserve_bytes=8 * MIB) as running,
    ):
        ids = []
        while True:
            answer = running.client.post("/v1/matrices", content=content, headers=NPY)
            if answer.status_code != 201:
                break
            ids.append(answer.json()["id"])
        assert answer.status_code == 507
        assert "beside the reserve" in answer.json()["limit"]
        assert 8 * MIB <= count_free_bytes(disk) < 8 * MIB + 2 * len(content)
        assert len(ids) > 5
        # A product has no room either, and is told so at once.
        job = running.wait_job(running.post_job(ids[0], ids[1]))
        assert (job["error"]["kind"], job["attempts"]) == ("storage", 1)
        assert running.client.get("/healthz/ready").status_code == 200
        for matrix_id in ids:
            assert running.client.delete(f"/v1/matrices/{matrix_id}").status_code == 204
        assert running.client.post("/v1/matrices", content=content, headers=NPY).is_success


@pytest.mark.needs("mounts")
def test_an_upload_of_exactly_the_free_bytes_leaves_nothing_behind():
    with mounted_tmpfs("16m") as disk, RunningServer(disk / "data", reserve_bytes=0) as running:
        small = running.upload(np.ones((4, 4)))
        size_bytes = count_free_bytes(disk)
        content = encode_npy(np.ones((1, size_bytes - 128), np.int8))
        answer = running.client.post("/v1/matrices", content=content, headers=NPY)
        assert answer.status_code == 507, answer.text
        assert running.list_matrix_files() == {f"{small}.npy"}
        stored = len(encode_npy(np.ones((4, 4))))
        assert running.read_metric("wavetrim_stored_bytes") == stored
        assert running.client.delete(f"/v1/matrices/{small}").status_code == 204


def test_a_file_that_cannot_be_made_durable_is_neither_there_nor_counted(database, tmp_path):
    store = open_store(database, tmp_path)
    draft = begin_draft(store, 3, 5)
    os.truncate(draft.hold.extent.slab, 10)
    with pytest.raises(StorageFailed, match="bytes long"):
        run(draft.publish())
    assert list_files(store) == []
    assert store.stored.count_on_disk() == 0


class CommitProxy:
    """Stands between psycopg and PostgreSQL and loses the answer to a COMMIT, or the COMMIT."""

    def __init__(self, folder, url):
        name, _, server_folder = url.partition("host=")
        self._server_socket = f"{server_folder}/.s.PGSQL.5432"
        self.url = f"{name}host={folder}"
        self.losing: str | None = None
        self.closed = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server_socket)
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client), daemon=True).start()

    def _pass(self, client, server):
        """From the client to the server."""
        with client:
            while data := client.recv(65536):
                losing = self.losing if b"COMMIT" in data else None
                if losing is not None:
                    self.closed = True
                    client.shutdown(socket.SHUT_RDWR)
                if losing != "commit":
                    server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _copy(self, server, client):
        """From the server to the client."""
        with server, suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.mark.parametrize(("losing", "kept"), [("answer", True), ("commit", False)])
def test_after_an_unclear_commit_the_row_decides(postgres, tmp_path_factory, losing, kept):
    folder = tmp_path_factory.mktemp(losing)
    proxy = CommitProxy(folder, postgres.create_database())
    database = open_database(proxy.url)
    store = open_store(database, folder)
    size_bytes = len(encode_npy(np.ones((3, 5), np.float32)))
    with pytest.raises(CommitUnclear):
        keep_matrix(store, 3, 5, settle=lambda _: setattr(proxy, "losing", losing))
    # As long as nobody knows, the file stays and counts.
    files = list_files(store)
    assert [name.partition(".")[2] for name in files] == ["npy"]
    assert store.stored.count_on_disk() == size_bytes
    with pytest.raises(SQLAlchemyError):
        store.rows.resolve_unclear()
    proxy.losing, proxy.closed = None, False
    store.rows.resolve_unclear()
    with reading(database) as connection:
        assert connection.scalar(select(func.count()).select_from(matrices)) == int(kept)
    assert list_files(store) == (files if kept else [])
    assert store.stored.count_on_disk() == (size_bytes if kept else 0)
    if kept:
        store.delete(files[0].removesuffix(".npy"))
        assert store.stored.count_on_disk() == 0
    database.dispose()
    proxy.close()


def test_a_connection_that_ends_before_the_commit_leaves_no_file(postgres, tmp_path):
    database = open_database(postgres.create_database())
    store = open_store(database, tmp_path)

    def end_connection(connection):
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with database.begin() as other:
            other.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 5000)")

    with pytest.raises(OperationalError):
        keep_matrix(store, 3, 5, settle=end_connection)
    assert list_files(store) == []
    assert store.stored.count_on_disk() == 0
    database.dispose()
