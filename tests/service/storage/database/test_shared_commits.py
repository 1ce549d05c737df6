"""Changes that are committed together: all are made once, and nobody hears of one before."""

import threading

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from tests.service.drafts import add_row
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.shared_commits import CommitLost, SharedCommits

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
