"""A backup of a service that runs, and its restore, by the commands of docs/operations.md."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command import invoke_command
from tests.environment import ROOT, clear_environment
from tests.postgres import DATABASES, find_programs
from tests.server import RunningServer
from wavetrim.service.cli.exits import ExitCode

PAGE = (ROOT / "docs" / "operations.md").read_text()
A = np.arange(12.0).reshape(3, 4)


def find_commands(title, *, with_server):
    """The shell's commands of a section, for SQLite or for PostgreSQL."""
    section = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    plain, postgres = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return str(postgres if with_server else plain)


def run(title, backup, data_dir, url):
    """Run the commands of a section as an operator does."""
    programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **clear_environment(), "BACKUP": str(backup), "WAVETRIM_DATA_DIR": str(data_dir),
    }  # fmt: skip
    if url is not None:
        environment["WAVETRIM_DATABASE_URL"] = url
        programs.insert(0, str(find_programs()))
    environment["PATH"] = os.pathsep.join(programs)
    commands = find_commands(title, with_server=url is not None)
    subprocess.run(["sh", "-ec", commands], env=environment, check=True)


@pytest.mark.parametrize("kind", DATABASES)
def test_a_backup_made_while_the_service_runs_is_restored_into_another_folder(
    kind, tmp_path, start_server, request
):
    urls, settings = (None, None), ({}, {})
    if kind == "postgresql":
        postgres = request.getfixturevalue("postgres")
        urls = postgres.create_database(), postgres.create_database()
        settings = [{"database_url": url} for url in urls]
    running = start_server(**settings[0])
    matrix, gone, turned = (running.upload(one) for one in (A, A - 1, A.T.copy()))
    job = running.post_job(matrix, turned)
    done = running.wait_job(job)
    run("To back up", tmp_path / "backup", running.data_dir, urls[0])
    assert running.client.delete(f"/v1/matrices/{gone}").status_code == 204
    second = running.upload(A + 1)
    run("To back up", tmp_path / "backup", running.data_dir, urls[0])
    later = running.upload(A + 2)
    running.kill()
    copied = {path.stem for path in (tmp_path / "backup" / "matrices").iterdir()}
    assert copied == {matrix, turned, done["result"], second}
    moved = running.data_dir.with_name("data1")  # where the next server's folder is
    run("To restore", tmp_path / "backup", moved, urls[1])
    restored = start_server(**settings[1])
    assert restored.data_dir == moved
    assert restored.client.get(f"/v1/jobs/{job}").json() == done
    assert np.array_equal(restored.download(f"/v1/jobs/{job}/result"), A @ A.T)
    assert np.array_equal(restored.download(f"/v1/matrices/{second}/data"), A + 1)
    for missing in (gone, later):
        assert restored.client.get(f"/v1/matrices/{missing}").status_code == 404
    assert restored.read_metric("wavetrim_lost_files") == 0
    restored.run_job(matrix, turned)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A folder of a service that has stopped, and the ids of its two matrices."""
    with RunningServer(tmp_path_factory.mktemp("stopped") / "data") as running:
        ids = running.upload(A), running.upload(A + 1)
    return running.data_dir, *ids


def back_up(data_dir, folder):
    """Run the command; returns its exit code and all that it says."""
    ended = invoke_command("backup", folder, "--data-dir", data_dir, folder=data_dir.parent)
    return ended.exit_code, ended.output


def test_a_damaged_matrix_is_named_and_all_others_are_copied(stopped, tmp_path):
    data_dir, first, second = stopped
    copy = tmp_path / "data"
    shutil.copytree(data_dir, copy)
    path = copy / "matrices" / f"{second}.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    code, told = back_up(copy, tmp_path / "backup")
    assert code == ExitCode.FAILED
    assert f"not copied: matrix {second}: its file is not as it was stored" in told
    assert "copied 1, kept 0, removed 0 matrices" in told
    assert [path.stem for path in (tmp_path / "backup" / "matrices").iterdir()] == [first]


def test_a_backup_is_its_users_alone(stopped, tmp_path):
    assert back_up(stopped[0], tmp_path / "backup")[0] == ExitCode.DONE
    entries = [tmp_path / "backup", *(tmp_path / "backup").rglob("*")]
    assert not [path for path in entries if path.stat().st_mode & 0o077]


def test_folders_that_are_no_backup_of_this_service_are_refused(stopped, tmp_path):
    data_dir = stopped[0]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "identity").write_text("0" * 32)
    for folder in (tmp_path / "full", tmp_path / "other", data_dir / "backup"):
        before = sorted(tmp_path.rglob("*"))
        code, told = back_up(data_dir, folder)
        assert (code, "folder is" in told) == (ExitCode.REFUSED, True)
        assert sorted(tmp_path.rglob("*")) == before
    code, told = back_up(tmp_path / "full", tmp_path / "new")
    assert (code, "data_dir is" in told) == (ExitCode.REFUSED, True)
