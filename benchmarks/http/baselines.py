"""Ways to get a product from a server: by a request over TCP, or through a lease."""

import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import numpy as np

import wavetrim
from benchmarks.http.client import Address, Load, apply_load
from benchmarks.http.product import Product, WrongAnswer, view_bytes

OURS: Final = "wavetrim"
OURS_LEASE: Final = "wavetrim-lease"
NUMPY: Final = "numpy"
CUPY: Final = "cupy"


LOCK_SECONDS: Final = 60.0
"""Limit for the service to page-lock a lease; chosen."""

_PAUSE_SECONDS: Final = 0.01


class BaselineFailed(Exception):
    """A baseline failed; the message says why."""


class Baseline(ABC):
    """One way to get a product.

    Attributes:
        name: Its name in rows.
        most_clients: Most clients with which it takes part.
    """

    name: str
    most_clients = 1000

    @abstractmethod
    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Let clients ask for the products for some time.

        Raises:
            WrongAnswer: An answer is not its product.
            BaselineFailed: It failed otherwise.
        """


class Wire(Baseline):
    """A server that is asked by requests over TCP."""

    def __init__(self, name: str, address: Address, path: str) -> None:
        self.name = name
        self._address, self._path = address, path

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Send the requests."""
        try:
            return apply_load(self._address, self._path, products, clients, seconds)
        except OSError as error:
            raise BaselineFailed(f"{type(error).__name__}: {error}") from error


class Lease(Baseline):
    """`wavetrim.Client(...).matmul(a, b, out=c)` with all three in memory that is shared.

    Only with one client: it shows what a caller waits for, not the service's capacity.

    Args:
        unix: The service's Unix socket.
        becomes_locked: Whether the service page-locks leases, as it does for a GPU.
    """

    name = OURS_LEASE
    most_clients = 1

    def __init__(self, unix: Path, *, becomes_locked: bool) -> None:
        self._unix, self._becomes_locked = unix, becomes_locked

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Copy operands into the lease, multiply there, and check the result there."""
        del clients
        load = Load()
        try:
            with closing(wavetrim.Client(str(self._unix))) as client:
                arrays = [client.empty(products[0].a.shape, products[0].a.dtype) for _ in "abc"]
                self._wait_until_locked()
                until = time.perf_counter() + seconds
                while not load.seconds or time.perf_counter() < until:
                    product = products[len(load.seconds) % len(products)]
                    load.seconds.append(self._multiply(client, arrays, product))
                product.check_whole(view_bytes(arrays[2]))
        except WrongAnswer:
            raise
        except Exception as error:
            raise BaselineFailed(f"{type(error).__name__}: {error}") from error
        load.elapsed_seconds = sum(load.seconds)
        return load

    def _wait_until_locked(self) -> None:
        until = time.perf_counter() + LOCK_SECONDS
        while not (leases := list_leases(self._unix)) or not all(
            one["locked"] or not self._becomes_locked for one in leases
        ):
            if time.perf_counter() > until:
                raise BaselineFailed(f"no lease was page-locked within {LOCK_SECONDS:g} s")
            time.sleep(_PAUSE_SECONDS)

    def _multiply(self, client: wavetrim.Client, arrays: Sequence[Any], product: Product) -> float:
        a, b, c = arrays
        np.copyto(a, product.a)
        np.copyto(b, product.b)
        began = time.perf_counter()
        client.matmul(a, b, out=c)
        seconds = time.perf_counter() - began
        product.check_rows(view_bytes(c))
        return seconds


def list_leases(unix: Path) -> list[dict[str, Any]]:
    """The leases that the service has given.

    Raises:
        OSError: Nobody listens there.
    """
    connection = HTTPConnection("localhost")
    with closing(socket.socket(socket.AF_UNIX)) as connection.sock:
        connection.sock.connect(str(unix))
        connection.request("GET", "/v1/leases")
        found: list[dict[str, Any]] = json.loads(connection.getresponse().read())["leases"]
        return found
