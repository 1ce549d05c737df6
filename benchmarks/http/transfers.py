"""A large matrix that is kept: how fast it comes in and goes out, beside a bare file server."""

import json
import statistics
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.common.operands import draw_operands
from benchmarks.http.baselines.baseline import OURS
from benchmarks.http.baselines.server_process import ServerProcess, find_free_port, run_module
from benchmarks.http.baselines.service import Service
from benchmarks.http.clients.connection import Address, connect, receive_answer
from benchmarks.http.clients.message import encode_npy, make_request
from benchmarks.http.clients.product import WrongAnswer
from benchmarks.http.clients.service_calls import ServiceCalls
from benchmarks.http.own_memory import watch_growth
from benchmarks.http.rows import Case, Row, summarize_turns

SIZE: Final = 16384
"""Rows and columns of float32: 1 GiB."""

SINK: Final = "sink"
ROUNDS: Final = 5
LEAST_ROUNDS: Final = 3
_HEAD_BYTES: Final = 2**16


@dataclass(slots=True)
class _Times:
    """Seconds of both ways, turn by turn."""

    upload: list[float] = field(default_factory=list)
    download: list[float] = field(default_factory=list)


def measure_transfers(service: Service, folder: Path, size: int, until: float) -> list[Row]:
    """Upload and download a matrix in turns with a bare file server.

    Args:
        service: Started.
        folder: For the bare server's file, on the service's file system.
        size: Rows and columns of the matrix, float32.
        until: Value of time.perf_counter() by which it should be over.

    Raises:
        WrongAnswer: What came back is not what was sent.
        ServerAbsent: The bare server does not start.
        CallFailed: The service refused a call.
        OSError: A connection broke.
    """
    port = find_free_port()
    process = ServerProcess(
        run_module("benchmarks.http.servers.sink", "--port", str(port), "--folder", str(folder)),
        folder / "sink.log",
    )
    try:
        process.wait_connected(("127.0.0.1", port))
        with ServiceCalls(service.port) as calls:
            return _take_turns(Exchange(size), service, calls, port, until)
    finally:
        process.stop()


def _take_turns(
    exchange: "Exchange", service: Service, calls: ServiceCalls, sink_port: int, until: float
) -> list[Row]:
    ours, bare = _Times(), _Times()
    service_address, sink_address = ("127.0.0.1", service.port), ("127.0.0.1", sink_port)

    def call_service() -> None:
        seconds, stored = store_matrix(service_address, "/v1/matrices", exchange.parts)
        ours.upload.append(seconds)
        path = f"/v1/matrices/{json.loads(stored)['id']}"
        ours.download.append(exchange.download(service_address, f"{path}/data", check=True))
        calls.call("DELETE", path)

    def call_sink() -> None:
        seconds, _ = store_matrix(sink_address, "/", exchange.parts)
        bare.upload.append(seconds)
        bare.download.append(exchange.download(sink_address, f"/{exchange.file_bytes}"))

    call_sink()
    bare.upload.clear()
    bare.download.clear()
    sides: list[Callable[[], None]] = [call_service, call_sink]
    with watch_growth(service.pid) as growth:
        for turn in range(ROUNDS):
            if turn >= LEAST_ROUNDS and time.perf_counter() > until:
                break
            for side in sides if turn % 2 == 0 else reversed(sides):
                side()
    rows = []
    for what in ("upload", "download"):
        floor = statistics.median(getattr(bare, what))
        for name, times in ((OURS, ours), (SINK, bare)):
            case = Case(what, exchange.size, "float32", clients=1)
            row = summarize_turns(case, name, getattr(times, what), floor)
            rows.append(replace(row, own_bytes=growth.grown_bytes if name == OURS else None))
    return rows


class Exchange:
    """A matrix that is sent and received.

    Args:
        size: Its rows and columns; float32.

    Attributes:
        size: As given.
        parts: Of its .npy file.
        file_bytes: Length of that.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        matrix = draw_operands((size, size, size), "float32").a
        parts = encode_npy(matrix)
        self.file_bytes = sum(map(len, parts))
        self._checksum = zlib.crc32(parts[1])
        self._elements = matrix.nbytes
        self.parts = parts
        self._answer = bytearray(np.zeros(self.file_bytes + _HEAD_BYTES, np.uint8).data)

    def download(self, address: Address, path: str, *, check: bool = False) -> float:
        """Receive the matrix into memory that is there; returns the seconds it took.

        Raises:
            WrongAnswer: It is not the one that was sent.
            OSError: The connection broke.
        """
        with connect(address) as connection:
            began = time.perf_counter()
            connection.sendall(make_request(path, (), method="GET"))
            head = receive_answer(connection, self._answer)
            seconds = time.perf_counter() - began
        elements = memoryview(self._answer)[head.total_bytes - self._elements : head.total_bytes]
        if head.status != 200 or (check and zlib.crc32(elements) != self._checksum):
            raise WrongAnswer(f"GET {path}: status {head.status}, or other elements than were sent")
        return seconds


def store_matrix(
    address: Address, path: str, parts: Sequence[bytes | memoryview]
) -> tuple[float, bytes]:
    """Send a matrix; returns the seconds until it is kept, and the answer's body.

    Args:
        address: Of the server.
        path: Where it takes matrices.
        parts: Of the .npy file.

    Raises:
        WrongAnswer: It was not kept.
        OSError: The connection broke.
    """
    request, answer = make_request(path, parts), bytearray(_HEAD_BYTES)
    with connect(address) as connection:
        began = time.perf_counter()
        connection.sendall(request)
        head = receive_answer(connection, answer)
        seconds = time.perf_counter() - began
    body = bytes(answer[head.head_bytes : head.total_bytes])
    if head.status != 201:
        raise WrongAnswer(f"upload to {path}: status {head.status}, {body!r}")
    return seconds, body
