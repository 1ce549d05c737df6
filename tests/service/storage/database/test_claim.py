"""One database, two services: the second one stays out, and the first keeps what it has."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from tests.command import run_command
from tests.postgres import PostgresServer, running_postgres
from tests.processes import wait_until
from tests.server import NPY, RunningServer, Start, encode_npy
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.storage.database.claim import Claim, claim_database
from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.errors import DatabaseRefused, DatabaseTaken

MakeUrl = Callable[[], str]


@pytest.fixture(params=["sqlite", "postgresql"])
def make_url(request: pytest.FixtureRequest, tmp_path: Path) -> MakeUrl:
    """Makes an empty database; returns its URL."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / 'shared' / 'wavetrim.db'}"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database


def start_beside(first: RunningServer, url: str, folder: Path, *command: object) -> list[str]:
    """Start a service, or another command, on a copy of a folder; returns what it says."""
    copy = folder / "copy"
    shutil.copytree(first.data_dir, copy, dirs_exist_ok=True)
    ended = run_command(
        *command, "--data-dir", copy, folder=folder,
        WAVETRIM_DATABASE_URL=url, WAVETRIM_DATABASE_WAIT_SECONDS="0.1",
    )  # fmt: skip
    assert ended.returncode == ExitCode.FAILED
    assert "Traceback" not in ended.stderr
    return ended.stderr.splitlines()


def test_a_copy_of_the_folder_with_the_same_database_is_kept_out(
    start_server: Start, make_url: MakeUrl, tmp_path: Path
) -> None:
    url = make_url()
    server = start_server(database_url=url)
    server.wait_ready()
    matrix_id = server.upload(np.ones((3, 3)))
    for command in (("serve", "--port", 0), ("adopt",)):
        said = start_beside(server, url, tmp_path, *command)
        assert said[-1].startswith("wavetrim: the database ")
        assert "another running service uses it" in said[-1]
    later = server.upload(np.ones((3, 3)))
    job = server.wait_job(server.post_job(matrix_id, later))
    assert job["state"] == "succeeded"
    assert server.list_matrix_files() >= {f"{matrix_id}.npy", f"{later}.npy"}
    server.stop()


def test_the_database_of_a_killed_service_is_free_at_once(
    start_server: Start, make_url: MakeUrl
) -> None:
    server = start_server(database_url=make_url(), database_wait_seconds=2)
    server.wait_ready()
    matrix_id = server.upload(np.ones((3, 3)))
    for _ in range(2):
        server.kill()
        server.restart()
    assert server.client.get(f"/v1/matrices/{matrix_id}").status_code == 200
    server.stop()


def test_a_service_waits_for_another_one_to_end(start_server: Start, make_url: MakeUrl) -> None:
    url = make_url()
    first = start_server(database_url=url)
    second = start_server(database_url=url, until_live=False)
    second.wait_logged("it is waited for")
    first.stop()
    second.wait_ready()
    second.stop()


def test_databases_and_schemas_of_one_server_are_claimed_apart(postgres: PostgresServer) -> None:
    urls = [postgres.create_database(), postgres.create_database()]
    with psycopg.connect(urls[0], autocommit=True) as admin:
        admin.execute("CREATE SCHEMA other")
    urls.append(f"{urls[0]}&options=-csearch_path%3Dother")
    claims = [claim_database(url) for url in urls]
    for url in urls:
        with pytest.raises(DatabaseTaken, match=r"process [0-9]+ of PostgreSQL"):
            claim_database(url)
    for claim in claims:
        claim.close()
    for url in urls:
        claim_database(url).close()
    with pytest.raises(DatabaseRefused, match="search_path names no schema"):
        claim_database(f"{urls[0]}&options=-csearch_path%3Dnowhere")


def test_a_link_to_the_file_leads_to_the_same_claim(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "wavetrim.db")
    claim = claim_database(f"sqlite:///{tmp_path}/wavetrim.db")
    with pytest.raises(DatabaseTaken, match=r"wavetrim\.db\.lock"):
        claim_database(f"sqlite:///{tmp_path}/link.db")
    claim.close()


def end_connections(url: str, names: str) -> None:
    """End the connections to a database whose application has such a name."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> "
            "pg_backend_pid() AND datname = current_database() AND application_name LIKE %s",
            [names],
        )


def test_a_lost_lock_is_taken_again_before_anything_is_written(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    claim, database = claim_database(url), open_database(url)
    claim.guard(database)
    end_connections(url, "%")
    with database.begin():
        pass
    with pytest.raises(DatabaseTaken):
        claim_database(url)
    end_connections(url, "wavetrim %")
    claim.keep()
    with pytest.raises(DatabaseTaken):
        claim_database(url)
    database.dispose()
    claim.close()
    claim_database(url).close()


def test_who_was_too_late_stays_out_until_its_next_start(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    late, database = claim_database(url), open_database(url)
    late.guard(database)
    end_connections(url, "wavetrim %")
    other = claim_database(url)
    for _ in range(2):
        with pytest.raises(OperationalError, match="another running service"):
            late.keep()
        with pytest.raises(OperationalError), reading(database) as connection:
            connection.exec_driver_sql("SELECT 1")
        other.close()  # the second time it has ended
    database.dispose()
    late.close()


def test_a_connection_that_the_server_still_has_to_end_is_waited_for(
    postgres: PostgresServer,
) -> None:
    """The network was away: the server does not know yet that the connection has ended."""
    url = postgres.create_database()
    claim = claim_database(url)
    earlier = claim._connection  # type: ignore[attr-defined]
    claim._connection = None  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(OperationalError, match="still has to end an earlier connection"):
            claim.keep()
    earlier.invalidate()
    wait_until(lambda: keeps(claim), 5)
    claim.close()


def keeps(claim: Claim) -> bool:
    try:
        claim.keep()
    except OperationalError:
        return False
    return True


def test_two_services_on_a_restarted_server(start_server: Start) -> None:
    """Each call of the late one is refused, and it says why; the other one works."""
    with running_postgres() as postgres:
        late = start_server(database_url=postgres.url)
        late.wait_ready()
        matrix_id = late.upload(np.ones((3, 3)))
        postgres.stop()
        postgres.start()
        wait_until(lambda: late.client.get("/healthz/ready").status_code == 200, 40)
        late.wait_logged("is taken again")
        end_connections(postgres.url, "wavetrim %")
        other = claim_database(postgres.url)
        late.wait_logged("this one stays out")
        for refused in (
            late.client.get(f"/v1/matrices/{matrix_id}"),
            late.client.post("/v1/matrices", content=encode_npy(np.ones((3, 3))), headers=NPY),
            late.client.get("/healthz/ready"),
        ):
            assert refused.status_code == 503
        other.close()
        late.stop()
        late.restart()
        assert late.client.get(f"/v1/matrices/{matrix_id}").status_code == 200
        late.stop()
