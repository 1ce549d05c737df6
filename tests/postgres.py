"""A real PostgreSQL server for tests: its own cluster in a temporary folder, on a Unix socket."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running_postgres() -> Iterator[str]:
    """Yields the URL of an empty database; skips the test where no server is installed."""
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (initdb and pg_ctl are not found)")
    # Not in pytest's folder: the server refuses to run as root, and another user cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="wavetrim-pg-"))
    user = find_user()
    if user is not None:
        shutil.chown(folder, user)

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(
            command, check=True, cwd=folder, user=user, extra_groups=[] if user else None,
            stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    try:
        call("initdb", "--auth=trust", "--username=wavetrim", "--no-sync", "--encoding=UTF8")
        # fsync is off: these clusters need not survive a power loss.
        options = f"-F -k {folder} -c listen_addresses= -c max_connections=40"
        call("pg_ctl", "start", "--wait", f"--log={folder}/log", "-o", options)
        try:
            yield f"postgresql://wavetrim@/postgres?host={folder}"
        finally:
            call("pg_ctl", "stop", "--wait", "--mode=immediate")
    finally:
        shutil.rmtree(folder)


def find_programs() -> Path | None:
    """The folder of initdb and pg_ctl: on the PATH, or where Debian puts the newest version."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).parent
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    return installed[-1].parent if installed else None


def find_user() -> str | None:
    """Who runs the server: PostgreSQL's own user or nobody, when the tests run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
