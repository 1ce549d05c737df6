import contextlib
import tempfile
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.client.scripted_server import answer, serve_script
from tests.command import invoke_command, run_command, start_command
from tests.processes import wait_until
from wavetrim.service.cli.exits import ExitCode


def list_processes(folder):
    """Command lines of the processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_text(errors="replace")
            if str(folder) in line:
                found.append(line)
    return found


def run_demo(*options, folder):
    return run_command("demo", *options, folder=folder, TMPDIR=str(folder))


def test_the_main_job_passes_and_leaves_nothing(tmp_path):
    done = run_demo(129, 65, 33, "--dtype", "int16", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED\n" in done.stdout
    assert "predicted/measured" in done.stdout
    assert "100%" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert list_processes(tmp_path) == []


@pytest.mark.slow
def test_over_nodes_one_is_killed_and_nothing_is_left():
    with tempfile.TemporaryDirectory(prefix="w-", dir="/tmp") as name:  # short: it holds sockets
        folder = Path(name)
        done = run_demo("--nodes", 2, "--size", 2500, folder=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "cluster: 2 nodes" in done.stdout
        assert "a node was killed while jobs were computed\n" in done.stdout
        assert "PASSED\n" in done.stdout
        assert list(folder.iterdir()) == []
        wait_until(lambda: list_processes(folder) == [])


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "uint16"])
def test_a_running_service_is_used_and_left_as_it_was(dtype, server, tmp_path):
    before = server.list_matrix_files()
    sizes = (60, 50, 600, "--dtype", dtype)
    done = run_demo(*sizes, "--url", server.url, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"service: {server.url}\n" in done.stdout
    assert server.list_matrix_files() == before
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_product_ends_with_3(server, tmp_path):
    wrong = np.array([1234.5, np.nan], np.float32).tobytes()

    def spoil(request):
        """The service's answer, with other elements at the end of a result."""
        method, path = request.line.split()
        found = httpx.request(
            method, server.url + path, content=request.body, headers=request.headers, timeout=30
        )
        content = found.content
        if path.endswith("/result"):
            content = content[: -len(wrong)] + wrong
        return answer(content, found.status_code, Content_Type=found.headers["content-type"])

    with serve_script([spoil], close=False) as url:
        done = run_demo("--size", 40, "--url", url, folder=tmp_path)
    assert done.returncode == ExitCode.WRONG
    assert "FAILED: 1 of 40 rows are wrong" in done.stdout
    assert "PASSED" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing(tmp_path):
    options = ["--size", 2000, "--dtype", "int64", "--runs", 1]
    with start_command("demo", *options, folder=tmp_path, TMPDIR=str(tmp_path)) as process:
        # A, B and the unfinished product.
        process.wait_until(lambda: len(list(tmp_path.glob("*/data/matrices/*"))) == 3)
        process.interrupt()
    assert list(tmp_path.iterdir()) == []
    assert list_processes(tmp_path) == []


def test_what_is_refused_starts_nothing(tmp_path):
    setting = invoke_command("demo", folder=tmp_path, WAVETRIM_CPU_THREADS="none")
    product = invoke_command("demo", "--dtype", "float128", folder=tmp_path)
    assert (setting.exit_code, product.exit_code) == (ExitCode.REFUSED, ExitCode.REFUSED)
    assert "WAVETRIM_CPU_THREADS" in setting.stderr
    assert "dtype is 'float128'; it must be one of" in product.stderr
    assert list(tmp_path.iterdir()) == []
