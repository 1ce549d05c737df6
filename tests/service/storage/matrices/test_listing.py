"""Matrices in a list, how long they and finished jobs are kept, and what they take of the disk."""

import random
import sqlite3
import time
from contextlib import closing, nullcontext

import numpy as np
import pytest

from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import NPY, encode_npy
from tests.service.storage.database.test_away import locked

ARRAY = np.ones((3, 4), np.float32)
DAY = 86_400


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
    expect_refusal(refused, 422, "cursor")


def restart_after(server, change):
    """Restart a service whose database was changed meanwhile."""
    server.stop()
    with closing(sqlite3.connect(server.data_dir / "wavetrim.db")) as database, database:
        database.execute(change)
    server.restart()


def list_ids(server, kind="matrices"):
    return {entry["id"] for entry in server.list_all(kind)}


def test_what_nobody_has_used_for_long_enough_is_removed(start_server):
    server = start_server(matrix_ttl_seconds=DAY)
    square = np.ones((4, 4), np.float32)
    unused, operand = server.upload(square), server.upload(square)
    result = server.wait_job(server.post_job(operand, operand))["result"]
    restart_after(server, f"UPDATE matrices SET created_at = created_at - {2 * DAY}")
    time.sleep(1)
    # Ages are not counted from before the first start: an upgrade gives everything its full time.
    assert list_ids(server) == {unused, operand, result}
    new = server.upload(square)
    restart_after(server, "UPDATE identity SET created_at = 0")
    wait_until(lambda: list_ids(server) == {operand, result, new})
    restart_after(server, f"UPDATE jobs SET created_at = created_at - {2 * DAY}")
    wait_until(lambda: list_ids(server) == {new})
    assert server.list_matrix_files() == {f"{new}.npy"}


def test_the_oldest_finished_jobs_are_forgotten_when_there_are_too_many(start_server):
    server = start_server(max_finished_jobs=2)
    matrix = server.upload(np.ones((4, 4), np.float32))
    jobs = [server.wait_job(server.post_job(matrix, matrix))["id"] for _ in range(4)]
    server.stop()
    server.restart()
    wait_until(lambda: list_ids(server, "jobs") == set(jobs[2:]))


def test_the_service_removes_by_itself_what_is_too_old(start_server):
    server = start_server(matrix_ttl_seconds=2, job_ttl_seconds=2)
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


def test_whatever_happens_the_bytes_are_those_of_the_list(start_server):
    server = start_server(busy_timeout_seconds=1, max_storage_bytes=40_000)
    chance = random.Random(11)

    def upload():
        content = encode_npy(np.ones((1, chance.randint(1, 9000)), np.int8))
        place = chance.choice(["disk", "memory"])
        return server.client.post(f"/v1/matrices?storage={place}", content=content, headers=NPY)

    def delete():
        ids = [entry["id"] for entry in server.list_all("matrices", 200)]
        return server.client.delete(f"/v1/matrices/{chance.choice([*ids, 'none'])}")

    seen = set()
    for step in range(60):
        if step % 20 == 19:
            server.kill() if step % 40 == 19 else server.stop()
            server.restart()
        with locked(server) if step % 10 == 5 else nullcontext():
            seen.add(chance.choice([upload, upload, delete])().status_code)
        listed = server.list_all("matrices", 200)
        on_disk = {one["id"]: one["bytes"] for one in listed if one["where"] == "disk"}
        assert server.read_metric("wavetrim_stored_bytes") == sum(on_disk.values())
        assert server.list_matrix_files() == {f"{name}.npy" for name in on_disk}
    assert seen >= {201, 204, 503, 507}
