"""The database: SQLite's settings, transactions that lose nothing, and changes that share them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event, inspect, text
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from tests.service.drafts import add_row
from wavetrim.service.errors import SettingRefused
from wavetrim.service.storage.database.database import open_database, reading
from wavetrim.service.storage.database.shared_commits import CommitLost, SharedCommits


def test_services_that_start_at_the_same_moment_create_the_tables_once(database_url):
    with ThreadPoolExecutor(6) as pool:
        for opened in pool.map(open_database, [database_url] * 6):
            opened.dispose()


def test_no_file_is_made_in_the_place_of_one_that_was_moved_away(sqlite, tmp_path):
    path = tmp_path / "wavetrim.db"
    with sqlite.begin() as connection:
        add_row(connection, "kept")
    aside = path.rename(tmp_path / "aside.db")
    with reading(sqlite), pytest.raises(OperationalError, match="unable to open"), sqlite.begin():
        pass
    assert not path.exists()
    aside.rename(path)
    with sqlite.begin() as connection:
        add_row(connection, "after")


@pytest.mark.parametrize(
    "url",
    [
        *("sqlite://", "sqlite:///:memory:", "no url at all", "", "postgresql://host:port/x"),
        "mysql://wave:hunter2@localhost/x",
    ],
)
def test_other_databases_are_refused_by_name_and_show_no_password(url):
    with pytest.raises(SettingRefused, match="database_url") as refused:
        open_database(url)
    assert "hunter2" not in str(refused.value)


def test_only_what_a_power_cut_may_undo_is_committed_without_a_sync(database, database_url):
    is_sqlite = database_url.startswith("sqlite")
    ask = text("PRAGMA synchronous" if is_sqlite else "SHOW synchronous_commit")
    unsafe, safe = (1, 2) if is_sqlite else ("off", "on")
    commits = SharedCommits(database)

    def read(connection):
        return connection.scalar(ask)

    def keep(connection):
        connection.execute(text("CREATE TABLE kept (a INTEGER)"))

    def undo(connection):
        connection.execute(text("CREATE TABLE undone (a INTEGER)"))
        raise ZeroDivisionError

    for _ in range(2):
        assert commits.add(read, durable=False).result() == unsafe
        assert commits.add(read).result() == safe
    commits.add(keep, durable=False).result()
    with pytest.raises(ZeroDivisionError):
        commits.add(undo, durable=False).result()
    with database.begin() as connection:
        assert inspect(connection).has_table("kept")
        assert not inspect(connection).has_table("undone")
        connection.execute(text("DROP TABLE kept"))
    commits.close()
    database.dispose()


INSERT = text(
    "INSERT INTO upload_keys (key, matrix, digest_sha256) VALUES (:key, :matrix, 'digest')"
)


def add(key, matrix="m"):
    def change(connection):
        connection.execute(INSERT, {"key": key, "matrix": matrix})
        return key

    return change


def list_keys(database):
    with reading(database) as connection:
        return list(connection.scalars(text("SELECT key FROM upload_keys ORDER BY key")))


@pytest.fixture
def commits(database):
    with database.begin() as connection:
        add_row(connection, "m")
    return SharedCommits(database)


def hold_first(commits):
    """Have the next commit wait until the event is set."""
    entered, goes_on = threading.Event(), threading.Event()

    def wait(_):
        entered.set()
        goes_on.wait(30)

    commits.add(wait)
    entered.wait(30)
    return goes_on


def test_a_change_that_fails_takes_no_other_with_it(database, commits):
    goes_on = hold_first(commits)
    first, twice, none, last = (commits.add(add(*one)) for one in ("a", "a", ("b", "x"), "c"))
    goes_on.set()
    assert (first.result(30), last.result(30)) == ("a", "c")
    for failed in (twice, none):
        with pytest.raises(IntegrityError):
            failed.result(30)
    assert list_keys(database) == ["a", "c"]
    commits.close()


def test_a_commit_that_is_not_answered_is_unclear_to_all_who_share_it(database, commits):
    goes_on = hold_first(commits)
    added = [commits.add(add(key)) for key in "ab"]
    losing = []

    def lose(_):
        if losing:
            raise SQLAlchemyError("no answer")

    event.listen(database, "commit", lose)
    last = commits.add(lambda _: losing.append(True))
    goes_on.set()
    for one in (*added, last):
        with pytest.raises(CommitLost):
            one.result(30)
    losing.clear()
    assert list_keys(database) == []
    assert commits.add(add("a")).result(30) == "a"
    commits.close()
    assert list_keys(database) == ["a"]
