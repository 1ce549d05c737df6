"""Matrices in a list, and how long they and finished jobs are kept."""

import os
import time

import numpy as np
import pytest
from sqlalchemy import insert, select, update

from tests.matrices import make_matrix
from tests.processes import wait_until
from tests.service.drafts import keep_matrix, open_store
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import jobs, matrices
from wavetrim.service.storage.errors import MatrixInUse

ARRAY = np.ones((3, 4), np.float32)
DAY = 86_400.0


@pytest.fixture
def store(database, tmp_path):
    return open_store(database, tmp_path)


def add_matrix(store, database, age_seconds=0.0):
    matrix = keep_matrix(store, 3, 4)
    with database.begin() as connection:
        changed = update(matrices).where(matrices.c.id == matrix.id)
        connection.execute(changed.values(created_at=time.time() - age_seconds))
    return matrix.id


def add_job(database, *, state="succeeded", age_seconds=0.0, **columns):
    job_id = os.urandom(8).hex()
    at = time.time() - age_seconds
    row = {"id": job_id, "state": state, "request": {}, "a": "x", "b": "y", "created_at": at,
           "finished_at": None if state in ("queued", "running") else at}  # fmt: skip
    with database.begin() as connection:
        connection.execute(insert(jobs).values({**row, **columns}))
    return job_id


def test_matrices_are_listed_newest_first_page_by_page(server):
    ids = [server.upload(ARRAY) for _ in range(7)]
    listed = server.list_all("matrices", 3)
    assert [entry["id"] for entry in listed] == ids[::-1]
    first = listed[0]
    single = server.client.get(f"/v1/matrices/{first['id']}").json()
    assert {name: first[name] for name in single} == single
    assert (first["shape"], first["dtype"], first["bytes"]) == ([3, 4], "float32", 176)
    assert (first["where"], first["state"], first["used_by"]) == ("disk", "stored", [])
    assert 0 <= first["age_seconds"] < 60
    assert listed[-1]["age_seconds"] >= first["age_seconds"]
    page = server.client.get("/v1/matrices", params={"limit": 3}).json()
    server.upload(ARRAY)
    server.client.delete(f"/v1/matrices/{ids[-1]}")
    following = {"limit": 2, "cursor": page["next_cursor"]}
    rest = server.client.get("/v1/matrices", params=following).json()["matrices"]
    assert [entry["id"] for entry in rest] == [ids[3], ids[2]]


@pytest.mark.parametrize("cursor", ["x", "YmVmb3JlOjE", "é", "MS4wL2EK"])
def test_a_foreign_cursor_is_refused(server, cursor):
    refused = server.client.get("/v1/matrices", params={"cursor": cursor})
    assert (refused.status_code, refused.json()["field"]) == (422, "cursor")


def test_a_matrix_names_the_unfinished_jobs_that_use_it(server):
    slow = server.upload(make_matrix(900, 900, "int64", seed=1))
    other = server.upload(ARRAY)
    posted = [
        server.client.post("/v1/jobs", json={"a": slow, "b": slow}).json()["id"] for _ in range(2)
    ]
    listed = {entry["id"]: entry["used_by"] for entry in server.list_all("matrices", 200)}
    assert (listed[slow], listed[other]) == (posted, [])
    for job_id in posted:
        server.client.delete(f"/v1/jobs/{job_id}")


def test_a_caller_is_told_of_no_job_of_another_owner(store, database):
    """An administrator's jobs may use anybody's matrices."""
    for owner in ("ada", ""):
        matrix = keep_matrix(store, 3, 4, owner=owner).id
        others = [add_job(database, state="queued", a=matrix, owner="root") for _ in range(2)]
        with pytest.raises(MatrixInUse, match=r"is needed by job of another owner$") as refused:
            store.delete(matrix, owner)
        assert refused.value.value == matrix
        assert store.page(owner=owner)[0] == ((store.get(matrix), ()),)
        own = add_job(database, state="running", b=matrix, owner=owner or None)
        with pytest.raises(MatrixInUse, match=f"by job {own}, one of another owner$"):
            store.delete(matrix, owner)
        assert store.page(owner=owner)[0] == ((store.get(matrix), (own,)),)
        with pytest.raises(MatrixInUse, match=f"by job {', '.join([*others, own])}$"):
            store.delete(matrix)
        assert store.page(limit=1)[0] == ((store.get(matrix), (*others, own)),)


def test_what_nobody_has_used_for_long_enough_is_removed(store, database):
    old = [add_matrix(store, database, age_seconds=2 * DAY) for _ in range(6)]
    new = add_matrix(store, database, age_seconds=DAY / 2)
    add_job(database, state="queued", age_seconds=3 * DAY, a=old[0])
    add_job(database, state="running", age_seconds=3 * DAY, c=old[1])
    add_job(database, age_seconds=DAY / 2, b=old[2])
    add_job(database, age_seconds=DAY / 2, result=old[3])
    add_job(database, age_seconds=3 * DAY, a=old[4], b=old[5])
    assert sorted(store.expire(DAY, start=0.0)) == sorted(old[4:])
    assert {path.stem for path in store.folder.iterdir()} == {*old[:4], new}
    assert store.expire(0.0, start=0.0) == []


def test_ages_are_not_counted_from_before_the_first_start(store, database):
    """An upgrade, or an adoption, gives everything its full time."""
    matrix_id = add_matrix(store, database, age_seconds=100 * DAY)
    add_job(database, age_seconds=100 * DAY)
    assert store.expire(DAY, start=time.time() - DAY / 2) == []
    queue = JobStore(database)
    assert queue.expire(DAY, start=time.time() - DAY / 2, most=10) == 0
    assert store.expire(DAY, start=time.time() - 2 * DAY) == [matrix_id]
    assert queue.expire(DAY, start=time.time() - 2 * DAY, most=10) == 1


def test_finished_jobs_are_forgotten_by_age_and_by_number(database):
    queue = JobStore(database)
    kept = [add_job(database, state=state, age_seconds=9 * DAY) for state in ("queued", "running")]
    for state in ("succeeded", "failed", "cancelled"):
        add_job(database, state=state, age_seconds=9 * DAY)
    new = [add_job(database) for _ in range(5)]
    assert queue.expire(DAY, start=0.0, most=10) == 3
    assert queue.expire(DAY, start=0.0, most=3) == 2
    assert queue.expire(0.0, start=0.0, most=3) == 0
    with reading(database) as connection:
        assert set(connection.scalars(select(jobs.c.id))) == {*kept, *new[2:]}


def test_the_service_removes_by_itself_what_is_too_old(start_server):
    server = start_server(matrix_ttl_seconds=2, job_ttl_seconds=2)
    server.wait_ready()
    small = server.upload(np.ones((4, 4), np.float32))
    done = server.post_job(small, small)
    server.wait_job(done)
    with server.engine_stopped():
        used = server.upload(np.ones((90, 90), np.float32))
        unfinished = server.post_job(used, used, verify=True)
        wait_until(lambda: server.client.get(f"/v1/jobs/{done}").status_code != 200, 60)
        wait_until(lambda: len(server.list_all("matrices")) == 1, 60)
        # What the unfinished job needs is still there.
        assert server.client.get(f"/v1/jobs/{unfinished}").json()["state"] in ("queued", "running")
        assert [entry["id"] for entry in server.list_all("matrices", 9)] == [used]
    server.client.delete(f"/v1/jobs/{unfinished}")
