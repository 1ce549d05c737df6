"""Rates at which a large matrix is stored and read, against a bare file server."""

import json
import statistics
import time
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common.operands import draw_operands
from benchmarks.common.turns import take_turns
from benchmarks.http.baselines.baseline import Name
from benchmarks.http.baselines.server_process import start_server
from benchmarks.http.baselines.service import Service
from benchmarks.http.clients.connection import Address, connect, receive_answer
from benchmarks.http.clients.message import AnswerHead, encode_npy, make_request
from benchmarks.http.clients.product import WrongAnswer
from benchmarks.http.clients.service_calls import ServiceCalls
from benchmarks.http.own_memory import watch_growth
from benchmarks.http.rows import Case, Row, summarize_rounds

SIZE: Final = 16384
"""Rows and columns of float32: 1 GiB."""

SINK: Final = "sink"
WAYS: Final = ("upload", "download")
ROUNDS: Final = 5
LEAST_ROUNDS: Final = 3
_HEAD_BYTES: Final = 2**16


Times = dict[tuple[str, str], list[float]]
"""Seconds of the turns, by way and baseline."""


def measure_transfers(service: Service, folder: Path, size: int, until: float) -> list[Row]:
    """Upload and download a float32 matrix in turns with a bare file server.

    The folder is for the bare server's file, on the service's file system.

    Raises:
        WrongAnswer: What came back is not what was sent.
        ServerAbsent: The bare server does not start.
        CallFailed: The service refused a call.
        OSError: A connection broke.
    """
    exchange = Exchange(size)
    times: Times = {(way, name): [] for way in WAYS for name in (Name.OURS, SINK)}
    sink, stop = start_server(
        folder / "sink.log", "benchmarks.http.servers.sink", "--folder", str(folder)
    )
    try:
        with ServiceCalls(service.port) as calls, watch_growth(service.pid) as growth:
            service_side = partial(_call_service, exchange, service.port, calls, times)
            sink_side = partial(_call_sink, exchange, sink)
            sink_side({key: [] for key in times})  # makes its pages
            sides = (service_side, partial(sink_side, times))
            for _, side in take_turns(sides, ROUNDS, least=LEAST_ROUNDS, until=until):
                side()
    finally:
        stop()
    return [
        summarize_rounds(
            *(Case(way, size, "float32", clients=1), baseline, [[one] for one in seconds]),
            floor_seconds=statistics.median(times[way, SINK]),
            own_bytes=growth.grown_bytes if baseline == Name.OURS else None,
        )
        for (way, baseline), seconds in times.items()
    ]


def _call_service(exchange: "Exchange", port: int, calls: ServiceCalls, times: Times) -> None:
    address = ("127.0.0.1", port)
    seconds, stored = store_matrix(address, "/v1/matrices", exchange.parts)
    times["upload", Name.OURS].append(seconds)
    path = f"/v1/matrices/{stored['id']}"
    times["download", Name.OURS].append(exchange.download(address, f"{path}/data", check=True))
    calls.call("DELETE", path)


def _call_sink(exchange: "Exchange", address: Address, times: Times) -> None:
    times["upload", SINK].append(store_matrix(address, "/", exchange.parts)[0])
    times["download", SINK].append(exchange.download(address, f"/{exchange.file_bytes}"))


class Exchange:
    """A matrix that is sent and received.

    Attributes:
        parts: Parts of its .npy file: header and elements.
        file_bytes: Length of the file.
    """

    def __init__(self, size: int) -> None:
        self.parts = encode_npy(draw_operands((size, size, size), "float32").a)
        self.file_bytes = sum(map(len, self.parts))
        self._checksum = zlib.crc32(self.parts[1])
        self._answer = bytearray(np.zeros(self.file_bytes + _HEAD_BYTES, np.uint8).data)

    def download(self, address: Address, path: str, *, check: bool = False) -> float:
        """Receive the matrix into memory whose pages are made; returns the seconds."""
        request = make_request(path, (), method="GET")
        head, seconds = _call(address, request, self._answer)
        elements = memoryview(self._answer)[: head.total_bytes][-len(self.parts[1]) :]
        if head.status != 200 or (check and zlib.crc32(elements) != self._checksum):
            raise WrongAnswer(f"GET {path}: status {head.status}, or other elements than were sent")
        return seconds


def store_matrix(
    address: Address, path: str, parts: Sequence[bytes | memoryview]
) -> tuple[float, Any]:
    """Send a matrix; returns the seconds until it is stored, and the answer's JSON.

    Raises:
        WrongAnswer: It was not stored.
        OSError: The connection broke.
    """
    answer = bytearray(_HEAD_BYTES)
    head, seconds = _call(address, make_request(path, parts), answer)
    body = bytes(answer[head.head_bytes : head.total_bytes])
    if head.status != 201:
        raise WrongAnswer(f"upload to {path}: status {head.status}, {body!r}")
    return seconds, json.loads(body) if body else None


def _call(address: Address, request: bytearray, answer: bytearray) -> tuple[AnswerHead, float]:
    """One request on a connection of its own; returns the seconds from first byte to last."""
    with connect(address) as connection:
        began = time.perf_counter()
        connection.sendall(request)
        head = receive_answer(connection, answer)
        return head, time.perf_counter() - began
