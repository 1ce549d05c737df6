"""The benchmark over HTTP: its clients catch wrong answers, and one small run with real servers."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.http.client import apply_load, make_request, read_head
from benchmarks.http.product import Product, WrongAnswer
from benchmarks.http.rows import Case, HttpResults, read_http_file
from tests.environment import ROOT
from tests.limit import allow
from tests.server import decode_npy, encode_npy

Answer = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def product() -> Product:
    return Product.draw(8, "float32", seed=0)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], tuple[str, int]]]:
    """Starts servers that answer each request as they are told."""
    listeners: list[socket.socket] = []

    def start(answer: Answer) -> tuple[str, int]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=attend, args=(connection, answer), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        return "127.0.0.1", listener.getsockname()[1]

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def attend(connection: socket.socket, answer: Answer) -> None:
    with connection, contextlib.suppress(ConnectionError):
        while request := receive_request(connection):
            connection.sendall(answer(request))


def receive_request(connection: socket.socket) -> bytes:
    """A whole request; nothing when the client has left."""
    request = b""
    while True:
        head, found, body = request.partition(b"\r\n\r\n")
        if found and len(body) >= int(head.rpartition(b":")[2]):
            return request
        if not (part := connection.recv(65536)):
            return b""
        request += part


def answer_with(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def multiply(request: bytes) -> bytes:
    """What a right server answers to two 8x8 matrices of float32."""
    body = request.partition(b"\r\n\r\n")[2]
    a, b = decode_npy(body[: len(body) // 2]), decode_npy(body[len(body) // 2 :])
    return answer_with(encode_npy(a @ b))


def test_a_request_is_what_numpy_and_http_say(product: Product) -> None:
    request = bytes(make_request("/v1/matmul", product))
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/matmul HTTP/1.1\r\nhost: ")
    assert head.endswith(f"content-length: {len(body)}".encode())
    assert body == encode_npy(product.a) + encode_npy(product.b)


@pytest.mark.parametrize("clients", [1, 3])
def test_right_answers_are_counted(
    serve: Callable[[Answer], tuple[str, int]], product: Product, clients: int
) -> None:
    products = [product, Product.draw(8, "float32", seed=1)]
    load = apply_load(serve(multiply), "/matmul", products, clients, 0.1)
    assert len(load.seconds) > clients
    assert load.refused == 0
    assert 0 < max(load.seconds) <= load.elapsed_seconds


def spoil_first(answer: bytes) -> bytes:
    return answer[: -product_bytes()] + np.float32(9).tobytes() + answer[4 - product_bytes() :]


def product_bytes() -> int:
    return 8 * 8 * 4


def spoil_middle(answer: bytes) -> bytes:
    middle = len(answer) - product_bytes() // 2
    return answer[:middle] + np.float32(9).tobytes() + answer[middle + 4 :]


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_first,
        spoil_middle,
        lambda answer: answer_with(b"short"),
        lambda answer: answer_with(answer, "500 Internal Server Error"),
        lambda answer: answer_with(b"x" * 200_000),
    ],
    ids=["first row", "middle", "short", "status", "long"],
)
@pytest.mark.parametrize("clients", [1, 3])
def test_a_wrong_answer_is_caught(
    serve: Callable[[Answer], tuple[str, int]], product: Product, spoil: Answer, clients: int
) -> None:
    address = serve(lambda request: spoil(multiply(request)))
    with pytest.raises(WrongAnswer):
        apply_load(address, "/matmul", [product], clients, 0.05)


def test_another_callers_answer_is_caught(
    serve: Callable[[Answer], tuple[str, int]], product: Product
) -> None:
    first = multiply(bytes(make_request("/matmul", product)))
    with pytest.raises(WrongAnswer, match="off by"):
        apply_load(
            serve(lambda request: first), "/matmul", [product, Product.draw(8, "float32", 1)], 1, 1
        )


def test_refusals_are_counted_and_not_timed(
    serve: Callable[[Answer], tuple[str, int]], product: Product
) -> None:
    answers = iter([True, False, False] * 10_000)

    def refuse_some(request: bytes) -> bytes:
        return multiply(request) if next(answers) else answer_with(b"{}", "429 Too Many Requests")

    load = apply_load(serve(refuse_some), "/matmul", [product], 1, 0.2)
    assert abs(load.refused - 2 * len(load.seconds)) <= 2


def test_heads_are_read_and_one_without_a_length_is_no_answer() -> None:
    head = b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\n"
    with pytest.raises(WrongAnswer, match="content-length"):
        read_head(bytearray(head), len(head))
    assert read_head(bytearray(head), len(head) - 1) is None
    whole = bytearray(b"HTTP/1.1 429 No\r\nContent-Length: 3\r\n\r\n123")
    assert read_head(whole, len(whole)) == (429, len(whole) - 3, len(whole))


def run(out: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.http", "--out", str(out), *arguments],
        cwd=ROOT,
        env={**os.environ, "WAVETRIM_DEVICES": "none", **variables},
        capture_output=True,
        text=True,
        timeout=allow(200),
        check=False,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> HttpResults:
    """One small run on this machine's CPU, repeated with more time until all is measured."""
    out = tmp_path_factory.mktemp("out")
    for seconds in ("4", "30", "90"):  # a busy machine needs more
        ran = run(out, "--sizes", "16", "--clients", "1", "4", "--seconds", seconds)
        assert ran.returncode == 0, ran.stderr
        if "time ran out" not in ran.stdout:
            break
    return read_http_file(out / "http-cpu.json")


def test_a_run_lets_the_service_a_lease_and_the_peer_take_turns(results: HttpResults) -> None:
    assert results.document["left_out"] == []
    alone, four = (results.find_case(Case("product", 16, "float32", n)) for n in (1, 4))
    assert set(four) == {"wavetrim", "numpy"}
    assert set(alone) == {*four, "wavetrim-lease"}
    for row in (*alone.values(), *four.values()):
        assert row.requests >= row.rounds >= 1
        assert min(row.p50_seconds, row.rate) > 0


def test_a_run_measures_jobs_with_results_on_disk_and_in_memory(results: HttpResults) -> None:
    for what in ("job", "job-memory"):
        (row,) = results.find_case(Case(what, 16, "float32", 1)).values()
        assert row.baseline == "wavetrim"
        assert row.rounds >= 3
        assert row.p50_seconds > 0


def test_without_its_peer_a_run_measures_nothing(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "fastapi.py").write_text("raise ImportError('no FastAPI for the peer')")
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'uvicorn' in ' '.join(sys.orig_argv):\n"
        f"    sys.path.insert(0, {str(hidden)!r})\n"
    )
    ended = run(tmp_path / "out", "--sizes", "16", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 1
    assert "numpy does not run here: ImportError: no FastAPI for the peer" in ended.stderr
    assert not list(tmp_path.glob("out/*.json"))
