"""The store of matrices over real files and a real database."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert, update

from tests.service.drafts import begin_draft, keep_matrix
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.database.tables import jobs
from wavetrim.service.storage.errors import MatrixInUse, StorageFull
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix


@pytest.fixture
def database(tmp_path: Path) -> Engine:
    return open_database(f"sqlite:///{tmp_path / 'wavetrim.db'}")


@pytest.fixture
def store(database: Engine, tmp_path: Path) -> MatrixStore:
    return open_store(database, tmp_path)


def open_store(database: Engine, folder: Path, *, max_storage_bytes: int = 10_000) -> MatrixStore:
    return MatrixStore(
        database, folder / "matrices", max_matrix_bytes=4_128, max_storage_bytes=max_storage_bytes
    )


def add_matrix(store: MatrixStore, rows: int = 3, columns: int = 5) -> Matrix:
    return keep_matrix(store, rows, columns)


def add_job(database: Engine, state: str, a: str, b: str, c: str | None = None) -> str:
    job_id = f"job-{state}-{os.urandom(4).hex()}"
    row: dict[str, Any] = {
        "id": job_id,
        "state": state,
        "request": {},
        "a": a,
        "b": b,
        "c": c,
        "created_at": 0.0,
    }
    with database.begin() as connection:
        connection.execute(insert(jobs).values(row))
    return job_id


def list_files(store: MatrixStore) -> set[str]:
    return {path.name for path in store.folder.iterdir()}


def test_concurrent_allocations_never_exceed_the_storage(store: MatrixStore) -> None:
    outcomes: list[bool] = []

    def allocate() -> None:
        try:
            begin_draft(store, 1, 1000)
        except StorageFull:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=allocate) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 6 + [True] * 2


@pytest.mark.parametrize("place", ["a", "b", "c"])
@pytest.mark.parametrize("state", ["queued", "running"])
def test_delete_refuses_an_operand_of_an_unfinished_job(
    store: MatrixStore, database: Engine, place: str, state: str
) -> None:
    named, other = add_matrix(store), add_matrix(store)
    operands = {"a": other.id, "b": other.id, place: named.id}
    job_id = add_job(database, state, **operands)
    with pytest.raises(MatrixInUse, match=job_id):
        store.delete(named.id)
    assert store.get(named.id).path.exists()
    with database.begin() as connection:
        connection.execute(update(jobs).values(state="succeeded"))
    store.delete(named.id)


def test_sweep_keeps_matrices_and_removes_what_a_crash_has_left(
    store: MatrixStore, database: Engine, tmp_path: Path
) -> None:
    kept = add_matrix(store)
    begin_draft(store, 3, 5)
    (store.folder / "no-row.npy").write_bytes(b"left")
    (store.folder / "spare-0.part").write_bytes(b"left")
    restarted = open_store(database, tmp_path)
    restarted.sweep()
    assert list_files(restarted) == {kept.path.name}
    assert restarted.get(kept.id) == kept
    assert restarted.stored.count_on_disk() == kept.size_bytes
