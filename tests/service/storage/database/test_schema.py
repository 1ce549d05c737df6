"""The tables' version: older ones are upgraded and kept, newer and foreign ones refused.

Then a data folder that an earlier version has left keeps working. `data/wavetrim-0.1.0.sql` is the
database of a service of commit 7fdf164, stopped with one job done and one waiting: their requests
know nothing of accuracy and multiprocessors.
"""

import logging
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, select, text

from tests.changed_program import describe_constants
from tests.command import run_command
from tests.postgres import running_postgres
from tests.refusals import expect_refusal
from tests.server import RunningServer
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.database.schema import MIGRATIONS, REVISIONS
from wavetrim.service.storage.database.tables import VERSION_TABLE, jobs, metadata
from wavetrim.service.storage.errors import DatabaseAway, DatabaseRefused


@pytest.fixture
def plain(database_url):
    """The same database without wavetrim."""
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))
    yield engine
    engine.dispose()


def make_version(plain, revision):
    """Tables as a version had them, with two jobs."""
    with plain.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, revision)
        add_job(connection, "first")
        add_job(connection, "second")


def add_job(connection, job):
    connection.execute(
        text(
            "INSERT INTO jobs (id, state, priority, request, a, b, progress, attempts,"
            " cancel_requested, created_at)"
            f" VALUES ('{job}', 'queued', 0, '{{}}', 'a', 'b', 0, 0, false, 0)"
        )
    )


def test_every_revision_is_known():
    scripts = ScriptDirectory(str(MIGRATIONS)).walk_revisions()
    assert tuple(script.revision for script in scripts)[::-1] == REVISIONS


@pytest.mark.parametrize("revision", [None, *REVISIONS[:-1]])
def test_upgraded_tables_are_those_that_are_made_anew(database_url, plain, revision):
    if revision is not None:
        make_version(plain, revision)
    opened = open_database(database_url)
    with reading(opened) as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        found = compare_metadata(context, metadata)
        assert [one for one in found if VERSION_TABLE not in str(one)] == []
        assert context.get_current_heads() == (REVISIONS[-1],)
        kept = list(connection.scalars(select(jobs.c.id).order_by(jobs.c.sequence)))
    assert kept == ([] if revision is None else ["first", "second"])
    opened.dispose()


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-1]])
def test_jobs_beyond_2_to_the_31_are_numbered(database_url, plain, revision):
    make_version(plain, revision)
    open_database(database_url).dispose()
    with plain.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT setval('jobs_sequence_seq', 2147483647)"))
        else:
            connection.execute(text("UPDATE jobs SET sequence = 2147483647 WHERE id = 'second'"))
        add_job(connection, "third")
        assert connection.scalar(select(jobs.c.sequence).where(jobs.c.id == "third")) == 2**31


def test_an_older_file_is_kept_as_it_was_beside_the_upgraded_one(tmp_path, caplog):
    folder = make_old(tmp_path / "old")
    with caplog.at_level(logging.INFO):
        opened = open_database(f"sqlite:///{folder / 'wavetrim.db'}")
    assert {one["name"] for one in inspect(opened).get_indexes("jobs")} >= {
        index.name for index in jobs.indexes
    }
    opened.dispose()
    (copy,) = folder.glob(f"wavetrim-before-{REVISIONS[-1]}-*.db")
    assert copy.name in caplog.text
    assert copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(copy)) as connection:
        assert {row[0] for row in connection.execute("SELECT id FROM jobs")} == {DONE, WAITING}
        columns = {row[1] for row in connection.execute("PRAGMA table_info(jobs)")}
    assert not columns & {"owner", "trace"}
    open_database(f"sqlite:///{folder / 'wavetrim.db'}").dispose()
    assert len([*folder.glob("*.db")]) == 2
    copy.replace(folder / "wavetrim.db")  # as after a downgrade and a second upgrade
    again = open_database(f"sqlite:///{folder / 'wavetrim.db'}")
    with reading(again) as connection:
        assert set(connection.scalars(select(jobs.c.id))) == {DONE, WAITING}
    again.dispose()


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("ALTER TABLE jobs DROP COLUMN trace", "column trace is missing"),
        ("DROP TABLE upload_keys", "no table upload_keys"),
        (f"DELETE FROM {VERSION_TABLE}", "version none"),
    ],
)
def test_tables_that_are_not_those_of_their_version_are_refused(
    database_url, plain, statement, refusal
):
    open_database(database_url).dispose()
    with plain.begin() as connection:
        connection.execute(text(statement))
    with pytest.raises(DatabaseRefused, match=refusal):
        open_database(database_url)


@pytest.mark.parametrize("columns", ["title VARCHAR(20)", "id INTEGER, state FLOAT"])
def test_tables_of_another_program_are_refused_and_left_as_they_are(database_url, plain, columns):
    with plain.begin() as connection:
        connection.execute(text(f"CREATE TABLE jobs ({columns})"))
    with pytest.raises(DatabaseRefused, match="jobs is not wavetrim's"):
        open_database(database_url)
    assert inspect(plain).get_table_names() == ["jobs"]


def test_a_service_with_a_newer_database_ends_with_one_line(tmp_path):
    opened = open_database(f"sqlite:///{tmp_path / 'data' / 'wavetrim.db'}")
    with opened.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0999'"))
    opened.dispose()
    ended = run_command("serve", "--port", 0, "--data-dir", "data", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.FAILED, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("wavetrim: ")
    assert "version 0999" in line


def test_postgresql_without_its_library_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingRefused, match="psycopg is not installed"):
        open_database("postgresql://wavetrim@localhost/x")


@pytest.mark.needs("postgresql")
def test_a_server_that_starts_later_is_waited_for(start_server, tmp_path):
    with running_postgres() as postgres:
        postgres.stop()
        with pytest.raises(DatabaseAway):
            open_database(postgres.url)
        refused = run_command(
            "serve", "--port", 0, "--data-dir", "refused", folder=tmp_path,
            WAVETRIM_DATABASE_URL=postgres.url, **describe_constants(database_wait_seconds=1),
        )  # fmt: skip
        assert (refused.returncode, refused.stdout) == (ExitCode.FAILED, "")
        waited, end = refused.stderr.splitlines()
        assert "it is waited for, 1 s at most" in waited
        assert end.startswith("wavetrim: the database postgresql://")
        stopped = start_server(database_url=postgres.url, until_live=False)
        stopped.wait_logged("it is waited for")
        assert stopped.stop() == ExitCode.FAILED
        assert "Traceback" not in stopped.read_log()
        started = start_server(database_url=postgres.url, until_live=False)
        started.wait_logged("it is waited for")
        postgres.start()
        started.wait_ready()
        started.stop()


DUMP = Path(__file__).parent / "data" / "wavetrim-0.1.0.sql"
A_ID, B_ID = "67164d18dd0f486c9ec8d27d707ef5", "fb62ad7c484f46a2bb563aca76516f"
PRODUCT_ID = "1cdb6943de7e427bacbdbe4740b3c6"
DONE, WAITING = "339d209219054e1ba62671b94abfd657", "c4a6c811ad5b42c19b1294f6eed5d46e"
A = np.arange(12, dtype=np.float32).reshape(4, 3)
B = np.arange(15, dtype=np.float32).reshape(3, 5)


def make_old(folder):
    """A data folder as the earlier version left it."""
    (folder / "matrices").mkdir(parents=True)
    with sqlite3.connect(folder / "wavetrim.db") as database:
        database.executescript(DUMP.read_text())
    database.close()
    for matrix_id, array in ((A_ID, A), (B_ID, B), (PRODUCT_ID, A @ B)):
        np.save(folder / "matrices" / f"{matrix_id}.npy", array)
    return folder


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """Today's service over such a folder."""
    with RunningServer(make_old(tmp_path_factory.mktemp("upgraded") / "old")) as running:
        yield running


def test_old_jobs_and_matrices_are_still_there(upgraded):
    job = upgraded.client.get(f"/v1/jobs/{DONE}").json()
    assert (job["state"], job["result"], job["plan"]["f"]) == ("succeeded", PRODUCT_ID, 4)
    assert (job["request"]["accuracy"], job["request"]["sms"]) == (None, None)
    assert np.array_equal(upgraded.download(f"/v1/jobs/{DONE}/result"), A @ B)
    listed = upgraded.client.get("/v1/jobs").json()["jobs"]
    assert {job["id"] for job in listed} >= {DONE, WAITING}


def test_a_job_that_waited_is_computed(upgraded):
    job = upgraded.wait_job(WAITING)
    assert (job["state"], job["error"]) == ("succeeded", None)
    assert job["request"]["kernel"] == "register"
    assert np.array_equal(upgraded.download(f"/v1/jobs/{WAITING}/result"), 2 * A @ B)


def test_a_post_that_is_retried_after_the_upgrade_gets_its_job(upgraded):
    request = {"a": A_ID, "b": B_ID, "verify": True}
    again = upgraded.client.post("/v1/jobs", json=request, headers={"Idempotency-Key": "done"})
    assert (again.status_code, again.json()["id"]) == (200, DONE)
    request["accuracy"] = "strict"
    other = upgraded.client.post("/v1/jobs", json=request, headers={"Idempotency-Key": "done"})
    expect_refusal(other, 422, "Idempotency-Key")
