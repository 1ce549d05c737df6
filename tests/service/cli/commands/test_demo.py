import contextlib
import http.server
import socketserver
import tempfile
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.command import invoke_command, run_command, start_command
from tests.matrices import FLOATS, make_matrix, reference_product
from tests.processes import wait_until
from wavetrim.service.cli.commands.demo import compare_product
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


def test_a_running_service_is_used_and_left_as_it_was(server, tmp_path):
    before = server.list_matrix_files()
    done = run_demo("--size", 100, "--url", server.url, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"service: {server.url}\n" in done.stdout
    assert server.list_matrix_files() == before
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def spoil_results(url, spoil):
    """A proxy of a service that spoils the products on their way."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {k: v for k, v in self.headers.items() if k not in ("Host", "Connection")}
            answer = httpx.request(
                self.command, url + self.path, content=body, headers=headers, timeout=30,
                verify=False,
            )  # fmt: skip
            content = answer.content
            if self.path.endswith("/result"):
                content = spoil(content)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = forward  # noqa: N815

        def log_message(self, *_):
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_address[1]}"
        finally:
            listener.shutdown()
            thread.join()


def test_a_wrong_product_ends_with_3(server, tmp_path):
    wrong = np.array([1234.5, np.nan], np.float32).tobytes()
    with spoil_results(server.url, lambda content: content[: -len(wrong)] + wrong) as url:
        done = run_demo("--size", 40, "--url", url, folder=tmp_path)
    assert done.returncode == ExitCode.WRONG
    assert "FAILED: 2 of 1600 elements differ" in done.stdout
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


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [1, 7, 600])
def test_a_rounded_product_passes(dtype, k):
    a, b = make_matrix(33, k, dtype, 0), make_matrix(k, 17, dtype, 1)
    error, allowed, differing = compare_product(reference_product(a, b).astype(dtype), a, b)
    assert (differing, error <= allowed) == (0, True)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint16", "int64"])
def test_one_wrong_element_fails(dtype):
    a, b = make_matrix(520, 50, dtype, 2), make_matrix(50, 17, dtype, 3)
    found = reference_product(a, b).astype(dtype)
    found[517, 4] += 1
    assert compare_product(found, a, b)[2] == 1


def test_integers_are_compared_modulo_their_word():
    a, b = np.full((3, 90), 9, np.int8), np.full((90, 2), 9, np.int8)
    assert compare_product(a @ b, a, b)[2] == 0
