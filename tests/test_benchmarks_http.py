"""The benchmark of requests: its clients, its floor, and small runs with real servers."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.http.connection import Call
from benchmarks.http.contenders import FLOOR, FloorContender, start_floor
from benchmarks.http.floor import SMALL_BYTES, answer_once
from benchmarks.http.load import Load, apply_load
from benchmarks.http.message import AnswerMalformed, make_request, read_head, request_npy
from benchmarks.http.product import Product, WrongAnswer
from tests.server import decode_npy, encode_npy

ROOT = Path(__file__).parents[1]
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


def make_call(product: Product) -> Call:
    return Call(
        request=request_npy("/matmul", product.a, product.b),
        answer_bytes=product.answer_bytes,
        row_bytes=product.answer_bytes // product.size,
        check_rows=product.check_rows,
        check_whole=product.check_whole,
    )


def answer_with(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def multiply(request: bytes) -> bytes:
    """What a right server answers to two 8x8 matrices of float32."""
    body = request.partition(b"\r\n\r\n")[2]
    a, b = decode_npy(body[: len(body) // 2]), decode_npy(body[len(body) // 2 :])
    return answer_with(encode_npy(a @ b))


def test_a_request_is_what_numpy_and_http_say(product: Product) -> None:
    request = bytes(request_npy("/v1/matmul", product.a, product.b))
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/matmul HTTP/1.1\r\nhost: ")
    assert head.endswith(f"content-length: {len(body)}".encode())
    assert body == encode_npy(product.a) + encode_npy(product.b)


@pytest.mark.parametrize("size", [4, 512])
def test_the_floor_moves_exactly_the_bytes(size: int) -> None:
    body = np.random.default_rng(size).bytes(3 * size**2 * 4)
    answer_bytes = size**2 * 4
    mine, other = socket.socketpair()
    buffers: list[bytearray] = []

    def serve_one() -> None:
        with other:
            buffers.append(answer_once(other, bytearray(SMALL_BYTES)))

    server = threading.Thread(target=serve_one)
    server.start()
    with mine:
        mine.sendall(make_request(f"/{answer_bytes}", [body]))
        answer = b"".join(iter(lambda: mine.recv(65536), b""))
    server.join(30)
    assert answer.partition(b"\r\n\r\n")[2] == body[:answer_bytes]
    assert (len(buffers[0]) > SMALL_BYTES) == (len(body) > SMALL_BYTES)


@pytest.mark.parametrize("name", [FLOOR, "floor-unix"])
@pytest.mark.parametrize(("size", "clients"), [(8, 1), (8, 20), (512, 3)])
def test_the_floor_serves_one_and_many_over_tcp_and_unix(
    tmp_path: Path, name: str, size: int, clients: int
) -> None:
    contender = FloorContender(name, lambda: start_floor(tmp_path, name), lambda x: bytearray())
    contender.start()
    try:
        products = [Product.draw(size, "float32", seed) for seed in range(2)]
        load = contender.measure(products, clients, 0.2)
    finally:
        contender.stop()
    assert len(load.seconds) >= clients
    assert load.refused == 0
    assert 0 < max(load.seconds) <= load.elapsed_seconds


@pytest.mark.parametrize("clients", [1, 3])
def test_right_answers_are_counted(
    serve: Callable[[Answer], tuple[str, int]], product: Product, clients: int
) -> None:
    others = [product, Product.draw(8, "float32", seed=1)]
    load = apply_load(serve(multiply), [make_call(one) for one in others], clients, 0.1)
    assert len(load.seconds) > clients
    assert load.refused == 0


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
def test_a_wrong_answer_is_caught(
    serve: Callable[[Answer], tuple[str, int]], product: Product, spoil: Answer
) -> None:
    address = serve(lambda request: spoil(multiply(request)))
    with pytest.raises(WrongAnswer):
        apply_load(address, [make_call(product)], 1, 0.05)


def test_another_callers_answer_is_caught(
    serve: Callable[[Answer], tuple[str, int]], product: Product
) -> None:
    first = multiply(bytes(make_call(product).request))
    address = serve(lambda request: first)
    with pytest.raises(WrongAnswer, match="first and last row"):
        apply_load(address, [make_call(product), make_call(Product.draw(8, "float32", 1))], 1, 1)


def test_refusals_are_counted_and_not_timed(
    serve: Callable[[Answer], tuple[str, int]], product: Product
) -> None:
    answers = iter([True, False, False] * 10_000)

    def refuse_some(request: bytes) -> bytes:
        return multiply(request) if next(answers) else answer_with(b"{}", "429 Too Many Requests")

    load: Load = apply_load(serve(refuse_some), [make_call(product)], 1, 0.2)
    assert abs(load.refused - 2 * len(load.seconds)) <= 2


def test_an_answer_without_a_length_is_no_answer() -> None:
    head = b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\n"
    with pytest.raises(AnswerMalformed, match="content-length"):
        read_head(bytearray(head), len(head))
    assert read_head(bytearray(head), len(head) - 1) is None


def run_benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.http", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture
def profile_file(tmp_path: Path) -> Path:
    """An estimate of this machine in a results file, as another benchmark writes it."""
    from wavetrim.scheduler.profile import find_profile

    profile = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"profile": profile.as_dict()}))
    return path


def test_a_run_has_service_eight_lines_and_floor_take_turns(
    tmp_path: Path, profile_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVETRIM_DEVICES", "none")
    out = tmp_path / "out" / "http-here.json"
    arguments = [
        "--sizes", "16", "--clients", "1,4", "--dtypes", "float32", "--seconds", "2",
        "--contenders", "floor,wavetrim,numpy,cupy", "--profile", str(profile_file),
        "--folder", str(tmp_path), "--out", str(out),
    ]  # fmt: skip
    run = run_benchmark(*arguments)
    assert run.returncode == 0, run.stderr
    document = json.loads(out.read_text())
    assert {"hardware", "versions", "commit"} <= set(document)
    rows = {(row["clients"], row["contender"]): row for row in document["rows"]}
    names = ("executor", "floor", "wavetrim", "numpy")
    assert set(rows) == {(clients, name) for clients in (1, 4) for name in names}
    for row in rows.values():
        assert (row["what"], row["size"], row["dtype"]) == ("product", 16, "float32")
        assert 0 < row["p50_seconds"] <= row["p99_seconds"]
        assert 0 < row["p95_seconds"] <= row["p99_seconds"]
        assert row["requests"] >= row["rounds"] >= 3
        assert min(row["rate"], row["floor_seconds"]) > 0
    floor = rows[1, "floor"]
    assert floor["floor_seconds"] == pytest.approx(
        floor["transport_seconds"] + floor["executor_seconds"], rel=1e-4
    )
    assert rows[1, "wavetrim"]["floor_seconds"] == floor["floor_seconds"]
    assert [line.split(":")[0] for line in document["absent"]] == ["cupy"]
    assert "cupy" in run.stdout

    again = run_benchmark(*arguments, "--keep")
    assert again.returncode == 0, again.stderr
    assert "product" not in again.stdout, "all of it was measured already"
    assert json.loads(out.read_text())["rows"] == document["rows"]
