"""A client on a bare socket that behaves badly at random, and checks every byte that it gets."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final

import numpy as np

from tests.server import encode_npy
from tests.service.api.wire.wire_server import make_context, make_head
from tests.service.storage.arena.chaos_matrices import (
    KeptSquares,
    KnownProduct,
    make_product,
    make_square,
)

PATIENCE_SECONDS: Final = 30.0
"""A silent service is given up after this: it hangs."""

_LINGER_RESET: Final = b"\x01\0\0\0\0\0\0\0"
"""SO_LINGER of zero seconds: closing resets the connection."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service listens: a port, with TLS or without, or a Unix socket."""

    place: int | Path
    tls: bool = False

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        """A connection; the caller closes it."""
        is_unix = isinstance(self.place, Path)
        connection = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
        connection.settimeout(PATIENCE_SECONDS)
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(str(self.place) if is_unix else ("127.0.0.1", self.place))
        if not is_unix:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return make_context().wrap_socket(connection) if self.tls else connection


class ClientConnection:
    """A connection and the answers on it."""

    def __init__(self, address: Address, *, receive_buffer: int | None = None) -> None:
        self.socket = address.connect(receive_buffer=receive_buffer)

    def begin_answer(self) -> HTTPResponse:
        """An answer whose head has been read."""
        answer = HTTPResponse(self.socket, method="POST")
        answer.begin()
        return answer

    def read_answer(self, pause: Callable[[], None] = lambda: None) -> tuple[int, bytes, bool]:
        """An answer's status and body, and whether the connection can have another request."""
        with self.begin_answer() as answer:
            parts, left = [], answer.length or 0
            while left:
                pause()
                parts.append(answer.read(min(left, 2**18)))
                left -= len(parts[-1])
                if not parts[-1]:
                    raise EOFError(f"the connection ended {left} bytes before the answer's end")
            return answer.status, b"".join(parts), not answer.will_close

    def close(self, *, reset: bool = False) -> None:
        """Leave; with a reset, whatever is under way."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self.socket.close()


class ChaosClient:
    """Sends requests, one after the other, each in a way of its own.

    Args:
        address: The service's.
        seed: Draws everything, together with the request's number.
    """

    def __init__(self, address: Address, seed: int) -> None:
        self._address = address
        self._seed = seed
        self._connection: ClientConnection | None = None
        self._random = np.random.default_rng(seed)
        self._kept = KeptSquares(self._ask)

    def keep_some(self) -> None:
        """Store until a few are kept."""
        self._kept.store_some(self._random)

    def keep_nothing(self) -> None:
        """Delete what was stored."""
        self._kept.delete_all()

    def close(self) -> None:
        """Leave."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def run(self, number: int) -> str:
        """Send one request and check its answer; returns how it was sent.

        Raises:
            AssertionError: The answer is not the right one, or none came in time.
        """
        self._random = np.random.default_rng([self._seed, number])
        way = draw_way(self._seed, number)
        began = time.monotonic()
        try:
            _WAYS[way][0](self)
        except (AssertionError, OSError, EOFError, HTTPException) as error:
            passed = time.monotonic() - began
            raise AssertionError(
                f"request {number}, {way}, after {passed:.1f} s: {error!r}"
            ) from error
        return way

    # Ways in which the right product is the answer.

    def be_ordinary(self) -> None:
        """All at once."""
        product = self._make()
        self._send(self._head(product) + product.body)
        self._expect(product)

    def send_slowly(self) -> None:
        """The body comes in pieces of any length, with pauses."""
        product = self._make()
        for piece in self._cut(self._head(product) + product.body):
            self._send(piece)
            self._pause()
        self._expect(product)

    def read_slowly(self) -> None:
        """A small receive buffer, and pauses between reads."""
        product = self._make()
        self.close()
        self._connection = ClientConnection(self._address, receive_buffer=4096)
        self._send(self._head(product) + product.body)
        pauses = iter(range(5))
        self._expect(product, lambda: self._pause() if next(pauses, None) is not None else None)
        self.close()

    def pipeline(self) -> None:
        """The second request's beginning comes with the first one's end."""
        first, second = self._make(), self._make()
        content = self._head(second) + second.body
        cut = self._draw(0, min(len(content), 2**16))  # what the service's socket takes unread
        self._send(self._head(first) + first.body + content[:cut])
        self._expect(first)
        self._send(content[cut:])
        self._expect(second)

    # Ways in which matrices stay in the service.

    def store(self) -> None:
        """A matrix is kept; it leaves the arena when others want its place."""
        self._kept.store(self._random)

    def fetch(self) -> None:
        """A matrix that was kept comes back."""
        self._kept.fetch(self._random)

    def square(self) -> None:
        """A job multiplies a matrix that was kept."""
        self._kept.multiply(self._random)

    # Ways in which a refusal is the answer.

    def fit_not(self) -> None:
        """B does not fit A: the answer comes while B's elements still do."""
        a, b = (encode_npy(np.ones(shape)) for shape in ((9, 300), (301, self._draw(2, 800))))
        head = make_head("/v1/matmul", len(a) + len(b))
        with suppress(ConnectionError, ssl.SSLError):  # it need not listen to the end
            for piece in self._cut(head + a + b):
                self._send(piece)
                self._pause()
        self._expect_problem(422)

    # Ways in which nobody waits for an answer.

    def drop_body(self) -> None:
        """The connection goes in mid-body."""
        product = self._make()
        content = self._head(product) + product.body
        self._send(content[: self._draw(1, len(content))])
        self._leave()

    def drop_upload(self) -> None:
        """The connection goes while a matrix comes that was to be kept."""
        content = make_square(self._random).content
        head = make_head("/v1/matrices", len(content))
        self._send(head + content[: self._draw(1, len(content))])
        self._leave()

    def drop_answer(self) -> None:
        """The connection goes when the request was sent."""
        product = self._make()
        self._send(self._head(product) + product.body)
        self._pause()
        self._leave()

    def drop_within_answer(self) -> None:
        """The connection goes in the answer; what has come is the product's beginning."""
        product = self._make()
        self._send(self._head(product) + product.body)
        with self._connect().begin_answer() as answer:
            read = answer.read(self._draw(0, len(product.answer)))
            assert (answer.status, read) == (200, product.answer[: len(read)])
        self._leave()

    # What they are made of.

    def _make(self) -> KnownProduct:
        return make_product(self._random)

    def _draw(self, low: int, high: int) -> int:
        return int(self._random.integers(low, max(low + 1, high)))

    def _head(self, product: KnownProduct) -> bytes:
        return make_head(f"/v1/matmul?{product.query}", len(product.body))

    def _connect(self) -> ClientConnection:
        if self._connection is None:
            self._connection = ClientConnection(self._address)
        return self._connection

    def _ask(self, method: str, path: str, content: bytes) -> tuple[int, bytes]:
        kind = "application/json" if path.startswith("/v1/jobs") else "application/x-npy"
        self._send(make_head(path, len(content), method=method, content_type=kind) + content)
        status, body, is_open = self._connect().read_answer()
        assert is_open, "a request that was taken whole leaves the connection open"
        return status, body

    def _send(self, content: bytes) -> None:
        self._connect().socket.sendall(content)

    def _cut(self, content: bytes) -> Iterator[bytes]:
        """The content in up to five pieces."""
        cuts = sorted(self._draw(0, len(content)) for _ in range(4))
        for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
            yield content[begin:end]

    def _pause(self) -> None:
        time.sleep(float(self._random.choice((0.0, 0.001, 0.004))))

    def _expect(self, product: KnownProduct, pause: Callable[[], None] = lambda: None) -> None:
        status, body, is_open = self._connect().read_answer(pause)
        assert status == 200, (status, body[:500])
        assert body == product.answer, describe_difference(body, product.answer)
        assert is_open, "a request that was taken whole leaves the connection open"

    def _expect_problem(self, status: int) -> None:
        found, body, is_open = self._connect().read_answer()
        assert found == status, (found, body[:500])
        if not is_open:
            self.close()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close(reset=self._random.random() < 0.5)
            self._connection = None


def describe_difference(found: bytes, wanted: bytes) -> str:
    """Where two answers differ."""
    if len(found) != len(wanted):
        return f"{len(found)} bytes instead of {len(wanted)}"
    differing = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(wanted, np.uint8))
    at = int(differing[0])
    return (
        f"{len(differing)} of {len(wanted)} bytes differ, the first at {at}: "
        f"{found[at : at + 16].hex()} instead of {wanted[at : at + 16].hex()}"
    )


_WAYS: Final[dict[str, tuple[Callable[[ChaosClient], None], int]]] = {
    "ordinary": (ChaosClient.be_ordinary, 30),
    "slow body": (ChaosClient.send_slowly, 8),
    "slow reader": (ChaosClient.read_slowly, 5),
    "pipelined": (ChaosClient.pipeline, 8),
    "stored": (ChaosClient.store, 3),
    "fetched": (ChaosClient.fetch, 2),
    "squared by a job": (ChaosClient.square, 1),
    "wrong shape": (ChaosClient.fit_not, 5),
    "body dropped": (ChaosClient.drop_body, 8),
    "upload dropped": (ChaosClient.drop_upload, 1),
    "answer dropped": (ChaosClient.drop_answer, 5),
    "dropped within the answer": (ChaosClient.drop_within_answer, 5),
}
"""What the ways do, and how often each is drawn among `DECK`."""

DECK: Final = tuple(name for name, (_, count) in _WAYS.items() for _ in range(count))
"""So many requests in a row are sent in these ways, shuffled: each comes as often as it should."""


def draw_way(seed: int, number: int) -> str:
    """How the request of this number is sent."""
    deck, place = divmod(number, len(DECK))
    return DECK[int(np.random.default_rng([seed, deck]).permutation(len(DECK))[place])]
