"""A real PostgreSQL server for tests: its own cluster in a temporary folder, on a Unix socket.

Fixtures, known in all tests by conftest.py: `postgres` is one server for all tests that do not stop
it, `sqlite` an empty database of SQLite, `database` one of each kind, and `database_url` its URL.
"""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.needs import find_command
from wavetrim.service.storage.database.database import open_database

DATABASES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql")))
"""Parameters of tests that run with each kind of database."""


class PostgresServer:
    """A cluster of its own, stopped and started at will.

    Its folder is empty, and its user, None for the one that runs the tests, can enter it.
    """

    def __init__(self, programs, folder, user):
        self._programs = programs
        self._folder = folder
        self._user = user
        self._numbers = itertools.count()
        self.url = f"postgresql://wavetrim@/postgres?host={folder}"
        self._call("initdb", "--auth=trust", "--username=wavetrim", "--no-sync", "--encoding=UTF8")

    def start(self):
        # fsync is off: these clusters need not survive a power loss.
        options = f"-F -k {self._folder} -c listen_addresses= -c max_connections=40"
        self._call("pg_ctl", "start", "--wait", f"--log={self._folder}/log", "-o", options)

    def stop(self, mode="fast"):
        """Stop the server and its connections: "fast" in good order, "immediate" as a crash."""
        self._call("pg_ctl", "stop", "--wait", f"--mode={mode}")

    def create_database(self):
        """Make an empty database; returns its URL."""
        name = f"empty{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url.replace("/postgres?", f"/{name}?")

    def _call(self, program, *arguments):
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        subprocess.run(
            command, check=True, cwd=self._folder, user=self._user,
            extra_groups=[] if self._user else None,
            stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@contextmanager
def running_postgres():
    """A started server."""
    programs = find_programs()
    # Not in pytest's folder: the server refuses to run as root, and another user cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="wavetrim-pg-"))
    user = find_user()
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = PostgresServer(programs, folder, user)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests that do not stop it."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def sqlite(tmp_path):
    """An empty database of SQLite, with its tables."""
    opened = open_database(f"sqlite:///{tmp_path / 'wavetrim.db'}")
    yield opened
    opened.dispose()


@pytest.fixture(params=DATABASES)
def database_url(request, tmp_path):
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'wavetrim.db'}"
    return request.getfixturevalue("postgres").create_database()


@pytest.fixture
def database(database_url):
    """One of each kind, with its tables."""
    opened = open_database(database_url)
    yield opened
    opened.dispose()


def find_programs():
    initdb = find_command("initdb")
    assert initdb is not None, "PostgreSQL is not installed"
    return Path(initdb).parent


def find_user():
    """The user that runs the server if the tests run as root: "postgres", else "nobody"."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
