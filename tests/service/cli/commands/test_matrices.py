"""`wavetrim upload`, `download`, `rm` and `cancel`, and the JSON of all commands that call."""

import json

import numpy as np
import pytest

from tests.command import call_service as call
from tests.command import invoke_command, start_command
from tests.matrices import SLOW, make_matrix
from tests.processes import wait_until
from wavetrim.client import Client, JobUnsuccessful
from wavetrim.service.cli.exits import ExitCode


@pytest.fixture
def files(tmp_path):
    """A folder with A.npy and B.npy."""
    np.save(tmp_path / "A.npy", make_matrix(30, 20, "float32", 0))
    np.save(tmp_path / "B.npy", make_matrix(20, 10, "float32", 1))
    return tmp_path


def test_uploaded_files_are_downloaded_unchanged(server, files):
    (files / "A.npy").rename(files / "[red]A:smile:.npy")
    stored = call(server, files, "upload", "[red]A:smile:.npy", "B.npy")
    assert stored.exit_code == 0, stored.stderr
    assert "upload [red]A:smile:.npy (1) " in stored.stderr, "a bar shows the name as it is"
    a, b = stored.stdout.split()
    assert call(server, files, "download", a, "-o", "A2.npy").exit_code == 0
    assert (files / "A2.npy").read_bytes() == (files / "[red]A:smile:.npy").read_bytes()
    assert call(server, files, "download", b).stdout == ""
    assert (files / f"{b}.npy").read_bytes() == (files / "B.npy").read_bytes()
    removed = call(server, files, "rm", a, b)
    assert (removed.exit_code, removed.stdout) == (0, "")
    gone = call(server, files, "download", a)
    assert gone.exit_code == ExitCode.REFUSED
    assert a in gone.stderr


def test_with_json_nothing_else_is_printed(server, files):
    def read(*arguments):
        done = call(server, files, *arguments, "--json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    stored = read("upload", "A.npy", "B.npy")
    assert [(one["shape"], one["dtype"]) for one in stored] == [
        ([30, 20], "float32"), ([20, 10], "float32"),
    ]  # fmt: skip
    a, b = (one["id"] for one in stored)
    done = read("submit", a, b, "--wait")
    assert done["state"] == "succeeded"
    job, result = done["id"], done["result"]
    assert read("status", job)["state"] == "succeeded"
    later = read("submit", a, b)["id"]
    size = 128 + 30 * 10 * 4
    assert read("fetch", job, "-o", "C.npy") == {"job": job, "file": "C.npy", "bytes": size}
    downloaded = {"id": result, "file": "D.npy", "bytes": size}
    assert read("download", result, "-o", "D.npy") == downloaded
    assert (files / "C.npy").read_bytes() == (files / "D.npy").read_bytes()
    assert call(server, files, "fetch", later, "-o", "E.npy", "--wait").exit_code == 0
    assert read("rm", a, b, result) == {"removed": [a, b, result]}


def test_a_job_is_cancelled(server, tmp_path):
    with Client(server.url) as client:
        slow = client.put(make_matrix(SLOW, SLOW, "int64", 2))
        with server.engine_stopped():
            first = client.submit(slow, slow)
            second = client.submit(first, slow)
            waiting = call(server, tmp_path, "cancel", second.id)
            assert (waiting.exit_code, waiting.stdout) == (0, f"job {second.id}: cancelled\n")
            running = call(server, tmp_path, "cancel", first.id, "--json")
            assert json.loads(running.stdout)["cancel_requested"]
        with pytest.raises(JobUnsuccessful, match="cancelled"):
            second.wait()
        again = call(server, tmp_path, "cancel", "nothing")
        assert again.exit_code == ExitCode.REFUSED
        assert "'nothing'" in again.stderr


def test_a_refused_file_removes_the_files_uploaded_before(server, files):
    (files / "text.npy").write_text("no matrix")
    wait_until(lambda: not any(name.endswith(".part") for name in server.list_matrix_files()))
    before = server.list_matrix_files()
    for arguments in (["A.npy", "text.npy"], ["A.npy", "missing.npy"]):
        refused = call(server, files, "upload", *arguments)
        assert refused.exit_code == ExitCode.REFUSED
        assert refused.stdout == ""
    assert server.list_matrix_files() == before


@pytest.mark.parametrize("command", ["upload", "submit"])
def test_ctrl_c_leaves_nothing_behind(command, server, files):
    np.lib.format.open_memmap(files / "large.npy", "w+", np.float32, (10, 12_800_000))
    before = server.list_matrix_files()
    arguments = [command, "B.npy", "large.npy"]
    with start_command(*arguments, folder=files, WAVETRIM_URL=server.url) as process:
        # The second file has begun, so the client knows that the first one is stored.
        process.wait_until(lambda: len(server.list_matrix_files() - before) == 2)
        assert process.interrupt()[0] == ""
    # The service notices the broken upload a little later.
    wait_until(lambda: server.list_matrix_files() == before)


def test_matrices_are_listed(server, tmp_path):
    with Client(server.url) as client:
        matrix = client.put(make_matrix(300, 200, "float32", 1))
    shown = invoke_command("matrices", folder=tmp_path, WAVETRIM_URL=server.url)
    assert shown.exit_code == 0, shown.stderr
    (line,) = [line for line in shown.stdout.splitlines() if matrix.id in line]
    assert "300x200" in line
    assert "float32" in line
    assert "234 KiB" in line
    assert max(map(len, shown.stdout.splitlines())) <= 80
    printed = invoke_command("matrices", "--json", folder=tmp_path, WAVETRIM_URL=server.url)
    assert json.loads(printed.stdout)[0]["id"] == matrix.id
