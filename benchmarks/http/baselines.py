"""Ways to get a product from a server: by a request over TCP, or through a lease."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import wavetrim
from benchmarks.http.client import Address, Load, Product, apply_load

OURS: Final = "wavetrim"
OURS_LEASE: Final = "wavetrim-lease"
NUMPY: Final = "numpy"
CUPY: Final = "cupy"


class Wire:
    """A server that is asked by requests over TCP."""

    most_clients = 1000

    def __init__(self, name: str, address: Address, path: str) -> None:
        self.name = name
        self._address, self._path = address, path

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Let clients ask for the products for some time."""
        return apply_load(self._address, self._path, products, clients, seconds)


class Lease:
    """`wavetrim.Client(...).matmul(a, b, out=c)` with all three in memory that is shared.

    Only with one client: it shows what a caller waits for, not the service's capacity. All rounds
    of a size use one lease, so that the service has page-locked it if there is a GPU.
    """

    name = OURS_LEASE
    most_clients = 1

    def __init__(self, unix: Path) -> None:
        self._client = wavetrim.Client(str(unix))
        self._arrays: list[NDArray[Any]] = []

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Copy operands into the lease, multiply there, and check the result there."""
        del clients
        times: list[float] = []
        like = products[0].a
        until = time.perf_counter() + seconds
        if not self._arrays or self._arrays[0].shape != like.shape:
            self._arrays = []  # the last lease ends
            self._arrays = [self._client.empty(like.shape, like.dtype) for _ in "abc"]
        while not times or time.perf_counter() < until:
            times.append(self._multiply(products[len(times) % len(products)]))
        return Load(times, sum(times))

    def _multiply(self, product: Product) -> float:
        a, b, c = self._arrays
        np.copyto(a, product.a)
        np.copyto(b, product.b)
        began = time.perf_counter()
        self._client.matmul(a, b, out=c)
        seconds = time.perf_counter() - began
        product.check(c.data.cast("B"))
        return seconds


Baseline = Wire | Lease
"""One way to get a product."""
