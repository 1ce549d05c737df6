"""A database that is locked, out of reach or damaged, and what readiness says of it."""

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import numpy as np
import psycopg
import pytest

from tests.changed_program import describe_constants
from tests.command import expect_refused
from tests.matrices import make_matrix
from tests.postgres import running_postgres
from tests.processes import wait_until
from tests.server import NPY, encode_npy
from wavetrim.service.cli.exits import ExitCode

CONTENT = encode_npy(np.ones((3, 3)))


def is_ready(server):
    return server.client.get("/healthz/ready").status_code == 200


def list_writes(server, matrix):
    """Calls that write to the database."""
    ask = server.client
    return [
        lambda: ask.post("/v1/jobs", json={"a": matrix, "b": matrix}),
        lambda: ask.post("/v1/matrices", content=CONTENT, headers=NPY),
        lambda: ask.delete(f"/v1/matrices/{matrix}"),
    ]


def list_reads(server, matrix):
    """Calls that read it."""
    paths = (f"matrices/{matrix}", "matrices", "jobs", "jobs?state=queued", "jobs/none", "me")
    return [partial(server.client.get, f"/v1/{path}") for path in paths]


def check_unavailable(refused):
    assert refused.status_code == 503, refused.text
    assert refused.json()["type"].endswith("unavailable")
    assert int(refused.headers["retry-after"]) >= 1
    assert "SELECT" not in refused.text
    assert "INSERT" not in refused.text


def locked(server):
    """Another program has the database's write lock: nothing is stored or removed meanwhile."""
    connection = sqlite3.connect(server.data_dir / "wavetrim.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return closing(connection)


def test_a_locked_database_is_told_and_readiness_knows_until_a_write_succeeds(start_server):
    server = start_server(busy_timeout_seconds=1)
    matrix_id = server.upload(np.ones((3, 3)))
    post_job, *_ = writes = list_writes(server, matrix_id)
    with locked(server), ThreadPoolExecutor() as callers:
        for refused in [callers.submit(write) for write in writes]:
            check_unavailable(refused.result())
        # Reads do not wait.
        assert server.client.get(f"/v1/matrices/{matrix_id}").status_code == 200
        unready = server.client.get("/healthz/ready")
        assert unready.status_code == 503
        assert "the last write failed" in unready.json()["missing"]["database"]
    assert server.list_matrix_files() == {f"{matrix_id}.npy"}
    wait_until(lambda: is_ready(server), 40)
    assert post_job().status_code == 202


def test_a_database_that_is_damaged_while_it_is_used_is_told_as_one_that_is_away(start_server):
    server = start_server()
    matrix_id = server.upload(np.ones((3, 3)))
    for _ in range(30):
        server.upload(np.ones((3, 3)))
    path = server.data_dir / "wavetrim.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    overwrite_middle(path)
    # What is cached is read anew after another program's commit.
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 7")
    calls = (*list_reads(server, matrix_id), *list_writes(server, matrix_id))
    answers = [call() for call in calls]
    statuses = [answer.status_code for answer in answers]
    assert 503 in statuses
    assert not [status for status in statuses if status >= 500 and status != 503], statuses
    assert all("malformed" not in answer.text for answer in answers)
    assert server.client.get("/metrics").status_code == 200
    assert server.read_metric("wavetrim_database_up") == 0
    unready = server.client.get("/healthz/ready")
    assert unready.status_code == 503
    assert server.multiply(*[np.ones((3, 3))] * 2).status_code == 200
    assert "incident" not in server.read_log()


@pytest.mark.needs("postgresql")
def test_a_database_out_of_reach_is_told_and_comes_back(start_server):
    with running_postgres() as postgres:
        server = start_server(database_url=postgres.url)
        matrix_id = server.upload(np.ones((3, 3)))
        postgres.stop()
        try:
            for call in (*list_reads(server, matrix_id)[:3], *list_writes(server, matrix_id)):
                check_unavailable(call())
            assert not is_ready(server)
            assert server.read_metric("wavetrim_database_up") == 0
            assert server.list_matrix_files() == {f"{matrix_id}.npy"}
        finally:
            postgres.start()
        wait_until(lambda: is_ready(server), 40)
        assert server.client.get(f"/v1/matrices/{matrix_id}").status_code == 200
        server.stop()


@pytest.mark.needs("postgresql")
def test_a_database_that_takes_no_writes_is_told_and_comes_back(start_server):
    """As a standby, or a server whose operator wants no more of them."""
    with running_postgres() as postgres, psycopg.connect(postgres.url, autocommit=True) as admin:
        server = start_server(database_url=postgres.url)
        matrix_id = server.upload(np.ones((3, 3)))

        def set_read_only(value):
            admin.execute(f"ALTER DATABASE postgres SET default_transaction_read_only = {value}")
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = 'postgres'"
            )

        set_read_only("on")
        post_job, *_ = writes = list_writes(server, matrix_id)
        for write in writes:
            check_unavailable(write())
        assert server.client.get(f"/v1/matrices/{matrix_id}").status_code == 200
        said = expect_refused(
            "keys", "add", "ada", folder=server.data_dir, status=ExitCode.FAILED,
            says="read-only", WAVETRIM_DATABASE_URL=postgres.url,
        )  # fmt: skip
        assert "INSERT INTO" not in said
        set_read_only("off")
        wait_until(lambda: is_ready(server), 40)
        assert post_job().status_code == 202
        server.stop()


@pytest.mark.needs("postgresql")
def test_a_service_without_its_database_ends_when_it_is_told_to(start_server):
    with running_postgres() as postgres:
        server = start_server(drain_seconds=0, database_url=postgres.url)
        slow = server.upload(make_matrix(1800, 1800, "int64", seed=1))
        job_id = server.post_job(slow, slow)
        wait_until(lambda: server.client.get(f"/v1/jobs/{job_id}").json()["progress"] > 0)
        postgres.stop()
        assert server.stop(12) == 0
        postgres.start()
        server.restart()
        assert server.client.get(f"/v1/jobs/{job_id}").json()["state"] in ("queued", "running")
        server.stop()


def test_a_server_that_is_not_there_is_refused_in_one_line(tmp_path):
    url = f"postgresql://wavetrim:hunter2@/postgres?host={tmp_path}"
    told = expect_refused(
        "serve", "--port", 0, folder=tmp_path, status=ExitCode.FAILED,
        says="wavetrim: the database postgresql://wavetrim:***@",
        WAVETRIM_DATABASE_URL=url, **describe_constants(database_wait_seconds=0.1),
    )  # fmt: skip
    assert "hunter2" not in told


def overwrite_start(path):
    path.write_bytes(b"no database" * 1000)


def overwrite_middle(path):
    """All but the first page, which has the tables."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


@pytest.mark.parametrize(
    ("damage", "told"),
    [(overwrite_start, "file is not a database"), (overwrite_middle, "damaged|malformed")],
)
def test_a_damaged_database_is_refused_in_one_line(start_server, damage, told):
    server = start_server()
    server.upload(np.ones((3, 3)))
    server.stop()
    files = server.list_matrix_files()
    damage(server.data_dir / "wavetrim.db")
    said = expect_refused(
        "serve", "--port", 0, "--data-dir", server.data_dir, folder=server.data_dir,
        status=ExitCode.FAILED, says="wavetrim: the database sqlite:///",
    )  # fmt: skip
    assert re.search(told, said), said
    assert server.list_matrix_files() == files


def test_a_service_without_the_gpu_that_it_should_use_is_degraded_and_computes(start_server):
    server = start_server(devices="0")
    ready = server.client.get("/healthz/ready").json()
    if server.client.get("/v1/devices").json()["devices"]:
        assert ready == {"status": "ready"}
    else:
        assert ready == {"status": "degraded", "detail": "the engine has 0 of 1 GPUs"}
    assert server.multiply(*[np.ones((3, 3))] * 2).status_code == 200
