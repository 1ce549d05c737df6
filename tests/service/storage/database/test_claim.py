"""One database, two services: the second one stays out, and the first keeps what it has."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tests.changed_program import describe_constants
from tests.command import expect_refused
from tests.postgres import running_postgres
from tests.processes import wait_until
from tests.server import NPY, encode_npy
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.claim import claim_database
from wavetrim.service.storage.errors import DatabaseAway, DatabaseRefused, DatabaseTaken


def claim(url):
    """Open a database as a service does."""
    return claim_database(url, Path("mine"))


def test_a_copy_of_the_folder_with_the_same_database_is_kept_out(
    start_server, database_url, tmp_path
):
    """The refusal names both sides."""
    server = start_server(database_url=database_url)
    matrix_id = server.upload(np.ones((3, 3)))
    copy = shutil.copytree(server.data_dir, tmp_path / "copy")
    for command in (("serve", "--port", 0), ("adopt",)):
        said = expect_refused(
            *command, "--data-dir", copy, folder=tmp_path,
            status=ExitCode.FAILED, says="wavetrim: the database ",
            WAVETRIM_DATABASE_URL=database_url, **describe_constants(database_wait_seconds=0.1),
        )  # fmt: skip
        assert f"another running service uses it, {find_holder(server, database_url)}" in said
        assert f"on {os.uname().nodename} with the data folder {copy}" in said
    later = server.upload(np.ones((3, 3)))
    server.run_job(matrix_id, later)
    assert server.list_matrix_files() >= {f"{matrix_id}.npy", f"{later}.npy"}


def find_holder(server, url):
    """How a refusal begins to name a service."""
    process = f"process {server.process.pid} on {os.uname().nodename}"
    if url.startswith("sqlite"):
        return f"{process} with the data folder {server.data_dir} since 20"
    with psycopg.connect(url) as admin:
        names = admin.execute(
            "SELECT DISTINCT application_name FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'wavetrim%'"
        ).fetchall()
    ((name,),) = names
    assert process.startswith(name.partition(", ")[2])
    return f"{name} since 20"


def test_the_database_of_a_killed_service_is_free_at_once(start_server, database_url):
    server = start_server(database_url=database_url, database_wait_seconds=2)
    matrix_id = server.upload(np.ones((3, 3)))
    server.kill()
    server.restart()
    assert server.client.get(f"/v1/matrices/{matrix_id}").status_code == 200


def test_a_service_waits_for_another_one_to_end(start_server, database_url):
    first = start_server(database_url=database_url)
    second = start_server(database_url=database_url, until_live=False)
    second.wait_logged("it is waited for")
    first.stop()
    second.wait_ready()


def test_databases_and_schemas_of_one_server_are_claimed_apart(postgres):
    urls = [postgres.create_database(), postgres.create_database()]
    with psycopg.connect(urls[0], autocommit=True) as admin:
        admin.execute("CREATE SCHEMA other")
    urls.append(f"{urls[0]}&options=-csearch_path%3Dother")
    claimed = [claim(url) for url in urls]
    for url in urls:
        with pytest.raises(DatabaseTaken):
            claim(url)
    for database in claimed:
        database.dispose()
    for url in urls:
        claim(url).dispose()
    with pytest.raises(DatabaseRefused, match="search_path names no schema"):
        claim(f"{urls[0]}&options=-csearch_path%3Dnowhere")


@pytest.mark.needs("postgresql")
def test_who_waits_leaves_a_restarted_server_to_the_one_that_had_it():
    with running_postgres() as postgres:
        database, other = claim(postgres.url), (postgres.url, Path("other"))
        for was_taken in (False, True):
            with pytest.raises(DatabaseTaken):
                claim_database(*other, was_taken=was_taken)
            postgres.stop()
            postgres.start()
            with pytest.raises(DatabaseAway, match="has just started"):
                claim_database(*other, was_taken=True)
            with database.begin():
                pass
        database.dispose()


@pytest.mark.parametrize("url", ["sqlite:///file:{}/a.db?uri=true", "sqlite:///{}/a.db?uri=true"])
def test_a_uri_of_sqlites_own_is_refused(tmp_path, url):
    with pytest.raises(SettingRefused, match="a SQLite file"):
        claim(url.format(tmp_path))


def test_a_link_to_the_file_leads_to_the_same_lock(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "wavetrim.db")
    database = claim(f"sqlite:///{tmp_path}/wavetrim.db")
    with pytest.raises(DatabaseTaken):
        claim(f"sqlite:///{tmp_path}/link.db")
    database.dispose()
    claim(f"sqlite:///{tmp_path}/link.db").dispose()


def end_connections(url):
    """End all connections to a database."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> "
            "pg_backend_pid() AND datname = current_database()"
        )


def test_a_lost_lock_is_taken_again_before_anything_is_written(postgres):
    url = postgres.create_database()
    database = claim(url)
    for _ in range(2):
        end_connections(url)
        with database.begin() as connection, database.begin():
            end = connection.connection.driver_connection.info.backend_pid
        with psycopg.connect(url, autocommit=True) as admin:  # another one still has it
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", [end])
        with pytest.raises(DatabaseTaken):
            claim(url)
    database.dispose()
    claim(url).dispose()


def take_over(url):
    """Claim a database in the moment in which its service has no connection."""
    while True:
        end_connections(url)
        with suppress(DatabaseTaken, DatabaseAway):
            return claim(url)


@pytest.mark.needs("postgresql")
def test_two_services_on_a_restarted_server(start_server):
    """Each call of the late one is refused until its next start, and it says why."""
    with running_postgres() as postgres:
        late = start_server(database_url=postgres.url)
        matrix_id = late.upload(np.ones((3, 3)))
        postgres.stop()
        postgres.start()
        wait_until(lambda: late.client.get("/healthz/ready").status_code == 200, 40)
        other = take_over(postgres.url)
        late.wait_logged("this one stays out")
        for _ in range(2):
            for refused in (
                late.client.get(f"/v1/matrices/{matrix_id}"),
                late.client.post("/v1/matrices", content=encode_npy(np.ones((3, 3))), headers=NPY),
                late.client.get("/healthz/ready"),
            ):
                assert refused.status_code == 503
            assert "another running service uses it" in refused.json()["missing"]["database"]
            other.dispose()  # the second time it has ended
        late.stop()
        late.restart()
        assert late.client.get(f"/v1/matrices/{matrix_id}").status_code == 200
        late.stop()
