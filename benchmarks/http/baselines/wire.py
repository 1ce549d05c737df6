"""Baselines that are asked over a socket, the floor among them."""

from collections.abc import Callable, Sequence

from benchmarks.http.baselines.baseline import Baseline
from benchmarks.http.baselines.server_process import Started
from benchmarks.http.clients.connection import Address, Call
from benchmarks.http.clients.load import Load, apply_load
from benchmarks.http.clients.message import NPY_HEADER_BYTES, encode_npy, make_request
from benchmarks.http.clients.product import Product, WrongAnswer


class WireBaseline(Baseline):
    """A server that is asked over a socket.

    Args:
        name: Its name in rows.
        start: Starts the server, unless it runs.
        ask: Makes the request of a product.
    """

    def __init__(
        self, name: str, start: Callable[[], Started], ask: Callable[[Product], bytearray]
    ) -> None:
        self.name = name
        self._start = start
        self._ask = ask
        self._address: Address | None = None
        self._stop: Callable[[], None] | None = None

    def start(self) -> None:
        """Start the server."""
        self._address, self._stop = self._start()

    def stop(self) -> None:
        """End the server."""
        if self._stop is not None:
            self._stop()

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Make the requests, and send them."""
        assert self._address is not None, "start comes before measure"
        calls = [self.make_call(product) for product in products]
        return apply_load(self._address, calls, clients, seconds)

    def make_call(self, product: Product) -> Call:
        """A product's request and the checks of its answer."""
        return make_call(product, self._ask(product))


def make_call(product: Product, request: bytearray) -> Call:
    """A request for a product, and the checks of its answer."""
    return Call(
        request=request,
        answer_bytes=product.answer_bytes,
        row_bytes=product.answer_bytes // product.size,
        check_rows=product.check_rows,
        check_whole=product.check_whole,
    )


class FloorBaseline(WireBaseline):
    """The same bytes in plain sockets; the answer is the beginning of the request's body."""

    def make_call(self, product: Product) -> Call:
        """A request whose answer is as long as the product's."""
        parts = [*encode_npy(product.a), *encode_npy(product.b)]
        answer_bytes = NPY_HEADER_BYTES + product.answer_bytes
        expected = b"".join(parts[:2])

        def check(data: memoryview) -> None:
            if data != expected:
                raise WrongAnswer("the floor's answer is not what was sent")

        def check_ends(data: memoryview) -> None:
            if data[:64] != expected[:64] or data[-64:] != expected[-64:]:
                raise WrongAnswer("the floor's answer is not what was sent")

        return Call(
            request=make_request(f"/{answer_bytes}", parts),
            answer_bytes=answer_bytes,
            row_bytes=64,
            check_rows=check_ends,
            check_whole=check,
        )
