"""One database, two services: the second one stays out, and the first keeps what it has."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from tests.changed_program import describe_constants
from tests.command import run_command
from tests.postgres import DATABASES, PostgresServer, running_postgres
from tests.processes import wait_until
from tests.server import NPY, RunningServer, Start, encode_npy
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.claim import Claim, Claiming, claim_database
from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.errors import DatabaseAway, DatabaseRefused, DatabaseTaken

MakeUrl = Callable[[], str]


@pytest.fixture(params=DATABASES)
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
        WAVETRIM_DATABASE_URL=url, **describe_constants(database_wait_seconds=0.1),
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


@pytest.mark.needs("postgresql")
def test_who_waits_leaves_a_restarted_server_to_the_one_that_had_it() -> None:
    with running_postgres() as postgres:
        claim, waiting = claim_database(postgres.url), Claiming(postgres.url)
        for _ in range(2):
            with pytest.raises(DatabaseTaken):
                waiting()
            postgres.stop()
            postgres.start()
            with pytest.raises(DatabaseAway, match="has just started"):
                waiting()
            claim.keep()
        claim.close()


def test_a_service_with_connections_has_its_database_without_the_lock_too(
    postgres: PostgresServer,
) -> None:
    url = postgres.create_database()
    claim, database = claim_database(url), open_database(url)
    claim.guard(database)
    with database.connect() as connection, psycopg.connect(url, autocommit=True) as admin:
        connection.exec_driver_sql("SELECT 1")
        admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE objsubid = 1")
        assert admin.execute("SELECT FROM pg_locks WHERE objsubid = 1").fetchall() == []
        with pytest.raises(DatabaseTaken):
            claim_database(url)
    database.dispose()
    claim.close()


def test_a_schema_that_is_away_for_a_while_is_waited_for(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    claim = claim_database(url)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("ALTER SCHEMA public RENAME TO aside")
        end_connections(url, "wavetrim %")
        assert not keeps(claim)
        admin.execute("ALTER SCHEMA aside RENAME TO public")
    assert keeps(claim)
    claim.close()


@pytest.mark.needs("postgresql")
def test_the_lock_follows_the_database_to_another_server(tmp_path: Path) -> None:
    """The address leads to another server, and the one before is still there."""
    with running_postgres() as before, running_postgres() as after:
        address = tmp_path / ".s.PGSQL.5432"
        address.symlink_to(find_socket(before))
        url = f"postgresql://wavetrim@/postgres?host={tmp_path}"
        claim, database = claim_database(url), open_database(url)
        claim.guard(database)
        with database.begin():
            pass
        address.unlink()
        address.symlink_to(find_socket(after))
        database.dispose()  # its connections to the server before are lost
        with database.begin():
            pass
        with pytest.raises(DatabaseTaken):
            claim_database(after.url)
        claim_database(before.url).close()
        database.dispose()
        claim.close()


def find_socket(postgres: PostgresServer) -> Path:
    return Path(postgres.url.partition("host=")[2], ".s.PGSQL.5432")


def test_an_idle_claim_outlives_the_servers_limit_of_idle_sessions(
    postgres: PostgresServer,
) -> None:
    url = postgres.create_database()
    claim = claim_database(f"{url}&options=-cidle_session_timeout%3D300")
    time.sleep(1)
    with pytest.raises(DatabaseTaken):
        claim_database(url)
    claim.close()


@pytest.mark.parametrize("url", ["sqlite:///file:{}/a.db?uri=true", "sqlite:///{}/a.db?uri=true"])
def test_a_uri_of_sqlites_own_is_refused(tmp_path: Path, url: str) -> None:
    for take in (claim_database, open_database):
        with pytest.raises(SettingRefused, match="a SQLite file"):
            take(url.format(tmp_path))


def test_a_circle_of_links_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.db").symlink_to(tmp_path / "b.db")
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    claim_database(f"sqlite:///{tmp_path}/a.db").close()
    with pytest.raises(DatabaseRefused, match="unable to open"):
        open_database(f"sqlite:///{tmp_path}/a.db")


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
    other = take_over(url)
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


def take_over(url: str) -> Claim:
    """Claim a database in the moment in which its service has no connection."""
    while True:
        end_connections(url, "wavetrim %")
        with suppress(DatabaseTaken, DatabaseAway):
            return claim_database(url)


@pytest.mark.needs("postgresql")
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
        other = take_over(postgres.url)
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
