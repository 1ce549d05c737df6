"""Clients on bare sockets: requests, and memory for answers, are made before the clock runs.

Each client is a thread, and sends its next request when it has its last answer. Every answer is
checked, outside the measured time.
"""

import contextlib
import gc
import io
import itertools
import re
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Matrix, draw_operands

Address = tuple[str, int]
"""Host and port."""

TIMEOUT_SECONDS: Final = 120.0
_HEAD_END: Final = b"\r\n\r\n"
_HEAD_BYTES: Final = 2**16
"""Memory for an answer's head, or for a whole refusal."""

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class WrongAnswer(Exception):
    """An answer is not the product that was asked for; the message says what it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A and B, and a check of A·B.

    Attributes:
        a: A[n, n], elements uniform in -1…1.
        b: B[n, n], likewise.
        freivalds: Checks products.
    """

    a: Matrix
    b: Matrix
    freivalds: FreivaldsCheck

    @classmethod
    def draw(cls, size: int, dtype: str, seed: int) -> Self:
        """Random operands; another seed makes another product."""
        operands = draw_operands((size, size, size), dtype, seed=2 * seed)
        return cls(operands.a, operands.b, FreivaldsCheck(operands))

    def encode(self) -> bytes:
        """Two .npy files, one after the other."""
        body = io.BytesIO()
        np.save(body, self.a)
        np.save(body, self.b)
        return body.getvalue()

    @property
    def answer_bytes(self) -> int:
        """Bytes of A·B, without a header."""
        return self.a.nbytes

    def check(self, data: memoryview) -> None:
        """Check the elements of an answer against A(B·x)."""
        name = f"{self.a.shape[0]}² {self.a.dtype}"
        if len(data) != self.answer_bytes:
            raise WrongAnswer(f"{name}: {len(data)} bytes, expected {self.answer_bytes}")
        error = self.freivalds.find_error(np.frombuffer(data, self.a.dtype).reshape(self.a.shape))
        if not error <= 1:
            raise WrongAnswer(f"{name}: off by {error:.3g} times what rounding allows")


def read_head(buffer: bytearray, received: int) -> tuple[int, int, int] | None:
    """Status of an answer, and where its body begins and ends; None until its head has arrived."""
    end = buffer.find(_HEAD_END, 0, received)
    if end < 0:
        return None
    length = _LENGTH.search(buffer, 0, end + 2)
    if length is None or not buffer[9:12].isdigit():
        raise WrongAnswer(f"no status or content-length: {bytes(buffer[: min(end, 500)])!r}")
    status, begin = int(buffer[9:12]), end + len(_HEAD_END)
    if begin + int(length[1]) > len(buffer):
        raise WrongAnswer(f"an answer of {int(length[1])} bytes, status {status}")
    return status, begin, begin + int(length[1])


def make_request(path: str, product: Product) -> bytes:
    """The whole request for a product."""
    body = product.encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-npy\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True, slots=True)
class Load:
    """The measurements of some clients.

    Attributes:
        seconds: Of each answered request, from its first byte sent to the last byte received.
        elapsed_seconds: From the first request to the last answer.
    """

    seconds: Sequence[float]
    elapsed_seconds: float


class Connection:
    """One connection, and memory for its answers, which are as long as the product's."""

    def __init__(self, address: Address, product: Product) -> None:
        self._answer = bytearray(product.answer_bytes + _HEAD_BYTES)
        np.frombuffer(self._answer, np.uint8).fill(1)  # touches all pages before the clock runs
        self._socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request: bytes) -> tuple[int, memoryview]:
        """Send a request and receive the whole answer: its status, and its body."""
        self._socket.sendall(request)
        view, received, head = memoryview(self._answer), 0, None
        while head is None or received < head[2]:
            count = self._socket.recv_into(view[received:])
            if count == 0:
                raise ConnectionResetError("the server has closed the connection")
            received += count
            head = head or read_head(self._answer, received)
        status, begin, end = head
        return status, view[begin:end]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def apply_load(
    address: Address, path: str, products: Sequence[Product], clients: int, seconds: float
) -> Load:
    """Let clients ask for the products in turn, for some time, each at least once."""
    requests = [make_request(path, product) for product in products]

    def call(first: int, connection: Connection) -> list[tuple[float, float]]:
        times: list[tuple[float, float]] = []
        for number in itertools.count(first):
            request, product = requests[number % len(requests)], products[number % len(products)]
            sent = time.perf_counter()
            status, body = connection.exchange(request)
            ended = time.perf_counter()
            if status != 200:
                raise WrongAnswer(f"status {status}: {bytes(body[:1000])!r}")
            product.check(body[max(0, len(body) - product.answer_bytes) :])
            times.append((sent, ended))
            if ended >= until:
                break
        return times

    with contextlib.ExitStack() as stack:
        connections = [Connection(address, products[0]) for _ in range(clients)]
        for connection in connections:
            stack.callback(connection.close)
        pool = stack.enter_context(ThreadPoolExecutor(clients))
        gc.collect()
        gc.disable()  # a collection would stop all clients
        stack.callback(gc.enable)
        began = time.perf_counter()
        until = began + seconds
        times = list(itertools.chain(*pool.map(call, range(clients), connections)))
    return Load([ended - sent for sent, ended in times], max(ended for _, ended in times) - began)
