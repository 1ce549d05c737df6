"""The store of matrices over real files and a real database."""

import os
import resource
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, insert, select, update

from wavetrim.service.errors import BodyTooLarge
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.database.tables import jobs, matrices
from wavetrim.service.storage.errors import MatrixInUse, MatrixNotFound, StorageFull
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
    return store.publish(store.allocate(rows, columns, "float32"))


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


@pytest.mark.parametrize("fortran_order", [False, True])
def test_a_published_matrix_is_the_file_that_numpy_saves(
    store: MatrixStore, tmp_path: Path, fortran_order: bool
) -> None:
    array = np.arange(15, dtype=np.float64).reshape(3, 5)
    if fortran_order:
        array = np.asfortranarray(array)
    pending = store.allocate(3, 5, "float64", fortran_order=fortran_order)
    with pending.path.open("r+b") as file:
        file.seek(pending.offset_bytes)
        file.write(array.tobytes("A"))
    matrix = store.publish(pending, "ab" * 32)
    np.save(tmp_path / "reference.npy", array)
    assert matrix.path.read_bytes() == (tmp_path / "reference.npy").read_bytes()
    assert store.get(matrix.id) == matrix
    assert matrix.operand() == {
        "slab": str(matrix.path),
        "offset_bytes": 128,
        "rows": 3,
        "columns": 5,
        "dtype": "float64",
        "fortran_order": fortran_order,
    }


def test_a_pending_matrix_is_not_found_and_a_discarded_one_leaves_nothing(
    store: MatrixStore,
) -> None:
    pending = store.allocate(3, 5, "float32")
    with pytest.raises(MatrixNotFound):
        store.get(pending.id)
    assert list_files(store) == {f"{pending.id}.part"}
    store.discard(pending)
    assert list_files(store) == set()
    assert store.count_stored_bytes() == 0


def test_a_matrix_over_the_limit_is_refused_with_size_and_limit(store: MatrixStore) -> None:
    store.discard(store.allocate(1, 1000, "float32"))
    with pytest.raises(BodyTooLarge, match=r"matrix size is 4132.*at most 4128 bytes"):
        store.allocate(1, 1001, "float32")
    with pytest.raises(BodyTooLarge):
        store.allocate(10**18, 10**18, "float64")


def test_storage_counts_pending_and_stored_matrices(store: MatrixStore) -> None:
    add_matrix(store, 1, 1000)
    pending = store.allocate(1, 1000, "float32")
    assert store.count_stored_bytes() == 2 * 4_128
    with pytest.raises(StorageFull, match=r"matrix size is 4128.*at most the 1744 bytes left"):
        store.allocate(1, 1000, "float32")
    store.discard(pending)
    add_matrix(store, 1, 1000)


def test_a_full_disk_is_met_when_the_file_is_made(database: Engine, tmp_path: Path) -> None:
    store = MatrixStore(database, tmp_path / "m", max_matrix_bytes=10**7, max_storage_bytes=10**7)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, limits[1]))
    try:
        with pytest.raises(StorageFull, match="matrix size is 4000128"):
            store.allocate(1000, 1000, "float32")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list_files(store) == set()
    assert store.count_stored_bytes() == 0


def test_concurrent_allocations_never_exceed_the_storage(store: MatrixStore) -> None:
    outcomes: list[bool] = []

    def allocate() -> None:
        try:
            store.allocate(1, 1000, "float32")
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


def test_delete_removes_row_and_file(store: MatrixStore) -> None:
    matrix = add_matrix(store)
    store.delete(matrix.id)
    assert list_files(store) == set()
    with pytest.raises(MatrixNotFound):
        store.get(matrix.id)
    with pytest.raises(MatrixNotFound, match="there is no matrix"):
        store.delete(matrix.id)


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


def test_an_open_file_outlives_its_deletion(store: MatrixStore) -> None:
    matrix = add_matrix(store)
    with matrix.path.open("rb") as file:
        store.delete(matrix.id)
        assert len(file.read()) == matrix.size_bytes


def test_sweep_keeps_matrices_and_removes_what_a_crash_has_left(
    store: MatrixStore, database: Engine, tmp_path: Path
) -> None:
    kept = add_matrix(store)
    store.allocate(3, 5, "float32")
    (store.folder / "no-row.npy").write_bytes(b"left")
    (store.folder / "spare-0.part").write_bytes(b"left")
    restarted = open_store(database, tmp_path)
    restarted.sweep()
    assert list_files(restarted) == {kept.path.name}
    assert restarted.get(kept.id) == kept
    assert restarted.count_stored_bytes() == kept.size_bytes


def add_temporary(store: MatrixStore, database: Engine) -> str:
    """A matrix as earlier versions stored those of a product in one call."""
    matrix = add_matrix(store)
    name = f"temporary-{matrix.id}"
    matrix.path.rename(matrix.path.with_name(f"{name}.npy"))
    with database.begin() as connection:
        change = update(matrices).where(matrices.c.id == matrix.id)
        connection.execute(change.values(id=name[:40]))
    return name[:40]


def test_sweep_ends_the_calls_that_a_crash_has_cut_off(
    store: MatrixStore, database: Engine, tmp_path: Path
) -> None:
    stored = add_matrix(store)
    operands = [add_temporary(store, database) for _ in range(2)]
    waiting = add_job(database, "queued", *operands)
    finished = add_job(database, "succeeded", *operands)
    other = add_job(database, "queued", stored.id, stored.id)
    result = add_matrix(store)
    with database.begin() as connection:
        connection.execute(update(jobs).where(jobs.c.id == finished).values(result=result.id))
    restarted = open_store(database, tmp_path)
    restarted.sweep()
    assert list_files(restarted) == {stored.path.name}
    with database.begin() as connection:
        assert list(connection.scalars(select(matrices.c.id))) == [stored.id]
        states = {row.id: row.state for row in connection.execute(select(jobs))}
    assert states == {waiting: "cancelled", finished: "succeeded", other: "queued"}
