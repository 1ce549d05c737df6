"""The benchmark of requests: its clients, its floor, and small runs with real servers."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.results import Record
from benchmarks.http.baselines.baseline import Name, Setup
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.lineup import start_floor
from benchmarks.http.baselines.server_process import ServerAbsent
from benchmarks.http.baselines.wire import FloorBaseline, WireBaseline, make_call
from benchmarks.http.cases import list_cases, weigh_case
from benchmarks.http.clients.connection import Call, Connection, connect, receive_answer
from benchmarks.http.clients.load import Load, apply_load
from benchmarks.http.clients.message import (
    AnswerHead,
    AnswerMalformed,
    make_request,
    read_head,
    request_npy,
)
from benchmarks.http.clients.product import Product, WrongAnswer
from benchmarks.http.contest import add_floors
from benchmarks.http.own_memory import measure_own, watch_growth
from benchmarks.http.rows import Case, HttpResults, read_http_file
from benchmarks.http.run import measure_products
from benchmarks.http.servers.floor import SMALL_BYTES, answer_once
from benchmarks.http.servers.sink import Sink
from benchmarks.http.transfers import Exchange
from tests.benchmarks.http_figures import invent_results, make_row
from tests.environment import ROOT
from tests.server import decode_npy, encode_npy
from wavetrim.scheduler.profile.store import find_profile

Answer = Callable[[bytes], bytes]

MEASURED = (
    *("floor", "wavetrim", "numpy", "cupy"),
    *("wavetrim-client", "wavetrim-lease", "wavetrim-lease-new"),
)
"""The baselines of the run in these tests."""


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


def call_peer(product: Product) -> Call:
    return make_call(product, request_npy("/matmul", product.a, product.b))


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


@pytest.mark.parametrize("name", [Name.FLOOR, "floor-unix"])
@pytest.mark.parametrize(("size", "clients"), [(8, 1), (8, 20), (512, 3)])
def test_the_floor_serves_one_and_many_over_tcp_and_unix(
    tmp_path: Path, name: str, size: int, clients: int
) -> None:
    baseline = FloorBaseline(name, lambda: start_floor(tmp_path, name), lambda x: bytearray())
    baseline.start()
    try:
        products = [Product.draw(size, "float32", seed) for seed in range(2)]
        load = baseline.measure(products, clients, 0.2)
    finally:
        baseline.stop()
    assert len(load.seconds) >= clients
    assert load.refused == 0
    assert 0 < max(load.seconds) <= load.elapsed_seconds


@pytest.mark.parametrize("clients", [1, 3])
def test_right_answers_are_counted(
    serve: Callable[[Answer], tuple[str, int]], product: Product, clients: int
) -> None:
    others = [product, Product.draw(8, "float32", seed=1)]
    load = apply_load(serve(multiply), [call_peer(one) for one in others], clients, 0.1)
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
@pytest.mark.parametrize("clients", [1, 3])
def test_a_wrong_answer_is_caught(
    serve: Callable[[Answer], tuple[str, int]], product: Product, spoil: Answer, clients: int
) -> None:
    address = serve(lambda request: spoil(multiply(request)))
    with pytest.raises(WrongAnswer):
        apply_load(address, [call_peer(product)], clients, 0.05)


def test_a_wrong_answer_to_a_large_request_is_caught(
    serve: Callable[[Answer], tuple[str, int]],
) -> None:
    large = Product.draw(400, "float32", seed=0)
    answer = answer_with(encode_npy(np.zeros((400, 400), np.float32)))
    with pytest.raises(WrongAnswer, match="first and last row"):
        apply_load(serve(lambda request: answer), [call_peer(large)], 2, 0.05)


def test_a_server_that_answers_wrong_bytes_makes_the_run_fail(
    serve: Callable[[Answer], tuple[str, int]], tmp_path: Path
) -> None:
    case = Case("product", 8, "float32", 1)
    address = serve(lambda request: spoil_middle(multiply(request)))
    baseline = WireBaseline(
        Name.OURS, lambda: (address, print), lambda x: request_npy("/v1/matmul", x.a, x.b)
    )
    baseline.start()
    record = Record(tmp_path / "http-new.json", invent_results().document)
    with pytest.raises(
        WrongAnswer, match=rf"{Name.OURS} at product 8² float32, 1 client: 8² float32"
    ):
        measure_products([baseline], [case], record, time.perf_counter() + 1)
    assert record.rows == []


def test_another_callers_answer_is_caught(
    serve: Callable[[Answer], tuple[str, int]], product: Product
) -> None:
    first = multiply(bytes(call_peer(product).request))
    address = serve(lambda request: first)
    with pytest.raises(WrongAnswer, match="first and last row"):
        apply_load(address, [call_peer(product), call_peer(Product.draw(8, "float32", 1))], 1, 1)


def test_refusals_are_counted_and_not_timed(
    serve: Callable[[Answer], tuple[str, int]], product: Product
) -> None:
    answers = iter([True, False, False] * 10_000)

    def refuse_some(request: bytes) -> bytes:
        return multiply(request) if next(answers) else answer_with(b"{}", "429 Too Many Requests")

    load: Load = apply_load(serve(refuse_some), [call_peer(product)], 1, 0.2)
    assert abs(load.refused - 2 * len(load.seconds)) <= 2


def test_a_head_like_one_before_is_not_read_again_unless_it_says_something_else(
    serve: Callable[[Answer], tuple[str, int]], product: Product
) -> None:
    connection = Connection(serve(multiply), call_peer(product))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: 1234567\r\nY: 1234567890\r\n\r\n"

    def find(*changes: bytes, received: int = 9) -> AnswerHead | None:
        answer = bytearray(head.replace(*changes) if changes else head) + b"x" * received
        return connection.find_head(answer, len(answer))

    first = find()
    assert first == (200, len(head), 9, False)
    assert find(b"1234567\r", b"7654321\r") is first
    assert find(b"200", b"429") == (429, len(head), 9, False)
    assert find(b"X: 1234567\r\nY: 1234567890", b"X: 123\r\nConnection: close").closes
    connection.close()


def test_a_unix_socket_whose_queue_is_full_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as stack:
        listener.bind(path)
        listener.listen(0)
        stack.enter_context(connect(path))
        connected = threading.Event()

        def connect_second() -> None:
            stack.enter_context(connect(path))
            connected.set()

        waiting = threading.Thread(target=connect_second)
        waiting.start()
        assert not connected.wait(0.2)
        stack.enter_context(listener.accept()[0])
        assert connected.wait(30)
        waiting.join()


def test_heads_are_read_and_one_without_a_length_is_no_answer() -> None:
    head = b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\n"
    with pytest.raises(AnswerMalformed, match="content-length"):
        read_head(bytearray(head), len(head))
    assert read_head(bytearray(head), len(head) - 1) is None
    whole = bytearray(b"HTTP/1.1 429 No\r\nContent-Length: 9\r\nConnection: close\r\n\r\n123")
    assert read_head(whole, len(whole)) == (429, len(whole) - 3, 9, True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> HttpResults:
    """One small run on this machine's CPU, repeated with more time until all is measured."""
    folder = tmp_path_factory.mktemp("run")
    profile, out = folder / "profile.json", folder / "out"
    here = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    profile.write_text(json.dumps({"profile": here.as_dict()}))
    for seconds in (6, 30, 90):  # a busy machine needs more
        # Sockets need shorter names than pytest's folders have.
        with tempfile.TemporaryDirectory(prefix="wavetrim-") as sockets:
            ran = subprocess.run(
                [
                    *(sys.executable, "-m", "benchmarks.http", "--out", str(out)),
                    *("--parts", "products,transfers,jobs", "--baselines", ",".join(MEASURED)),
                    *("--sizes", "16,256", "--clients", "1,4", "--memory", "0.001"),
                    *("--dtypes", "float64", "--transfer-size", "300"),
                    *("--job-sizes", "64", "--profile", str(profile), "--folder", sockets),
                    *("--seconds", str(seconds)),
                ],
                cwd=ROOT, env={**os.environ, "WAVETRIM_DEVICES": "none"},
                capture_output=True, text=True, timeout=200, check=False,
            )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        if "time ran out" not in ran.stdout:
            break
    found = read_http_file(out / "http-cpu.json")
    assert all(line in ran.stdout for line in found.absent)
    return found


def test_a_run_has_service_eight_lines_leases_and_floor_take_turns(results: HttpResults) -> None:
    alone, four = (results.find_case(Case("product", 16, "float64", n)) for n in (1, 4))
    assert set(four) == {Name.EXECUTOR, Name.FLOOR, "wavetrim", "numpy"}
    assert set(alone) == {*four, "wavetrim-client", "wavetrim-lease"}
    for row in (*alone.values(), *four.values()):
        assert 0 < row.p50_seconds <= row.p99_seconds
        assert 0 < row.p95_seconds <= row.p99_seconds
        assert row.requests >= row.rounds >= 1
        assert min(row.rate, row.floor_seconds) > 0
    floor = alone[Name.FLOOR]
    total_seconds = floor.transport_seconds + floor.executor_seconds
    assert floor.floor_seconds == pytest.approx(total_seconds, rel=1e-4)
    assert alone["wavetrim"].floor_seconds == floor.floor_seconds
    assert alone["wavetrim-lease"].floor_seconds == alone[Name.EXECUTOR].p50_seconds


def test_what_a_run_leaves_out_is_listed_with_its_reason(results: HttpResults) -> None:
    lines = list(results.absent)
    for clients in ("1 client", "4 clients"):
        (line,) = [x for x in lines if x.startswith(f"product 256² float64, {clients}: it wants")]
        lines.remove(line)
    assert sorted(lines) == [
        "cupy: does not run here: ModuleNotFoundError: No module named 'cupy'",
        "split: there is no GPU to split with",
        "wavetrim-lease-new: nothing is page-locked without a GPU, so no lease is new for long",
    ]


def test_a_file_without_a_profile_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVETRIM_DEVICES", "none")
    file = tmp_path / "results.json"
    for text in ("{}", "[]", "{", '{"profile": {}}'):
        file.write_text(text)
        baseline = ExecutorBaseline(Setup(tmp_path, file))
        with pytest.raises(ServerAbsent, match=f"{file} holds no profile"):
            baseline.start()
        baseline.stop()


def test_a_run_measures_transfers_and_jobs(results: HttpResults) -> None:
    rows = {(x.what, x.baseline): x for x in results.rows}
    for what in ("upload", "download"):
        assert rows[what, "wavetrim"].own_bytes < 2**26
        assert rows[what, "wavetrim"].floor_seconds == rows[what, "sink"].p50_seconds > 0
    job, memory = rows["job", "wavetrim"], rows["job-memory", "wavetrim"]
    assert (job.size, job.f, job.f_actual) == (64, 64, 64)
    assert job.rounds >= 3
    assert job.note.startswith("GET")
    assert job.floor_seconds == max(job.executor_seconds, job.disk_seconds)
    assert min(job.p50_seconds, job.server_seconds) > 0
    assert memory.floor_seconds == memory.executor_seconds == job.executor_seconds
    assert job.dtype == memory.dtype == "float64"


def test_the_sink_writes_what_it_receives_and_sends_what_is_asked_for(tmp_path: Path) -> None:
    exchange = Exchange(1111)
    mine, other = socket.socketpair()
    sink = Sink(tmp_path)

    def serve_all() -> None:
        with other, contextlib.suppress(ConnectionError):
            sink.serve(other)

    server = threading.Thread(target=serve_all)
    server.start()
    with mine:
        for method, path, parts in (("POST", "/", exchange.parts), ("GET", "/70000", [])):
            mine.sendall(make_request(path, parts, method=method))
            answer = bytearray(100_000)
            head = receive_answer(mine, answer)
            assert head.status == (201 if method == "POST" else 200)
    server.join(30)
    assert (head.body_bytes, answer[head.head_bytes + 300]) == (70_000, 300 % 256)
    stored = (tmp_path / "sink.npy").read_bytes()
    header, elements = exchange.parts
    assert stored[: len(header)] == header
    assert stored[4096 : 4096 + len(elements)] == bytes(elements)


def test_a_download_of_other_bytes_is_caught(serve: Callable[[Answer], tuple[str, int]]) -> None:
    exchange = Exchange(8)
    right = b"".join(exchange.parts)
    exchange.download(serve(lambda request: answer_with(right)), "/", check=True)
    wrong = right[:-4] + b"\0\0\0\0"
    with pytest.raises(WrongAnswer, match="other elements"):
        exchange.download(serve(lambda request: answer_with(wrong)), "/", check=True)


def test_own_memory_is_what_a_process_and_its_children_do_not_share() -> None:
    shared, own = 48, 16  # MiB
    code = (
        "import mmap, sys\n"
        f"shared = mmap.mmap(-1, {shared} * 2**20)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        f"for _ in range({shared}): shared.write(bytes(2**20))\n"
        f"own = b'x' * ({own} * 2**20)\n"
        "print('made', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with watch_growth(process.pid) as growth:
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"made\n"
            grown = measure_own(process.pid) - growth.before_bytes
        process.stdin.close()
    assert own - 1 < grown / 2**20 < own + 8
    assert growth.grown_bytes < (own + 8) * 2**20


def test_many_clients_ask_for_small_matrices_and_each_case_says_what_room_it_wants() -> None:
    cases = dict(list_cases([64, 256, 4096, 8192], ["float32"], [1, 4, 16, 512]))
    asked = {(case.size, case.clients) for case in cases}
    assert {(64, 512), (256, 512), (4096, 4), (8192, 1)} <= asked
    assert not asked & {(4096, 16), (4096, 512), (8192, 4), (8192, 512)}
    assert cases[Case("product", 4096, "float32", 4)] == 2 * 4 * 4 * 3 * 2**26


def test_a_small_case_has_a_third_of_a_runs_time_beside_a_large_one() -> None:
    small, large = (weigh_case(Case("product", size, "float32", 1)) for size in (64, 8192))
    assert 0.2 < small / (small + large) < 0.4


def test_a_floor_is_a_sum_for_one_client_and_the_longer_part_for_many() -> None:
    for clients, expected in ((1, 3e-3 + 1e-3), (16, 16e-3)):
        case = Case("product", 64, "float32", clients)
        floor = make_row(case, Name.FLOOR, 3.0, rate=clients / 3e-3)
        executor = make_row(case, Name.EXECUTOR, 1.0)
        rows = {
            row.baseline: row for row in add_floors({Name.EXECUTOR: executor, Name.FLOOR: floor})
        }
        assert rows[Name.FLOOR].floor_seconds == pytest.approx(expected)
        assert rows[Name.FLOOR].transport_seconds == pytest.approx(3e-3)


class Breaking(WireBaseline):
    """A baseline whose server closes each connection after some answers."""

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        if seconds:
            raise ConnectionResetError("the server has closed the connection")
        return Load(seconds=[1e-3], elapsed_seconds=1e-3)


def test_a_service_that_breaks_is_listed_and_makes_the_run_fail(tmp_path: Path) -> None:
    case = Case("product", 8, "float32", 1)
    for name, broken in ((Name.NUMPY, False), (Name.OURS, True)):
        baseline = Breaking(name, lambda: ("", print), lambda x: bytearray())
        record = Record(tmp_path / f"http-{name}.json", invent_results().document)
        measure_products([baseline], [case], record, time.perf_counter() + 1)
        assert bool(record.failed) is broken
        why = "ConnectionResetError: the server has closed the connection"
        assert record.left_out == [f"{name} at {case}: {why}"]
