"""The client library: over TCP, and with operands and results in a lease."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np

import wavetrim
from benchmarks.http.baselines.baseline import Baseline, BaselineFailed, Name
from benchmarks.http.baselines.server_process import ServerAbsent
from benchmarks.http.baselines.service import Service
from benchmarks.http.clients.load import Load
from benchmarks.http.clients.message import view_bytes
from benchmarks.http.clients.product import Product, WrongAnswer
from benchmarks.http.clients.service_calls import ServiceCalls
from benchmarks.http.rows import Case

LOCK_SECONDS: Final = 60.0
"""Limit for the engine to page-lock a lease; chosen."""

_PAUSE_SECONDS: Final = 0.01


class ClientBaseline(Baseline):
    """`wavetrim.Client(...).matmul(a, b, out=c)` over TCP, by one caller."""

    name = Name.OURS_CLIENT

    def __init__(self, service: Service) -> None:
        self._service = service

    def start(self) -> None:
        """Start the service."""
        self._service.start()

    def takes_part(self, case: Case) -> bool:
        """Only with one client: it shows the cost of the library, not the service's capacity."""
        return case.clients == 1

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Multiply arrays, the caller's or those of a lease, into one of the same kind."""
        del clients
        load = Load()
        try:
            self.multiply(products, seconds, load)
        except WrongAnswer:
            raise
        except Exception as error:
            raise BaselineFailed(f"{type(error).__name__}: {error}") from error
        load.elapsed_seconds = sum(load.seconds)
        return load

    def multiply(self, products: Sequence[Product], seconds: float, load: Load) -> None:
        """Multiply for some time, by one client."""
        with closing(self.open()) as client:
            arrays = self.allocate(client, products[0])
            until = time.perf_counter() + seconds
            while True:
                product = products[len(load.seconds) % len(products)]
                if multiply_once(client, product, arrays, load) >= until:
                    break
            product.check_whole(view_bytes(arrays[2]))

    def open(self) -> wavetrim.Client:
        """A client."""
        return wavetrim.Client(f"http://127.0.0.1:{self._service.port}")

    def allocate(self, client: wavetrim.Client, product: Product) -> list[Any]:
        """Memory for A, B and C."""
        del client
        return [np.empty_like(product.a) for _ in "abc"]


class LeaseBaseline(ClientBaseline):
    """The same through a lease, which is page-locked if there is a GPU."""

    name = Name.OURS_LEASE

    def start(self) -> None:
        """Start the service, and ask whether it has a GPU."""
        self._service.start_unix()
        with ServiceCalls(self._service.port) as calls:
            self._with_gpu = bool(calls.call("GET", "/v1/devices")["devices"])

    def open(self) -> wavetrim.Client:
        """A client on the service's host."""
        return wavetrim.Client(str(self._service.unix))

    def allocate(self, client: wavetrim.Client, product: Product) -> list[Any]:
        """Arrays in a lease; waits until it is page-locked.

        Raises:
            BaselineFailed: The service gave none, or did not lock it.
        """
        arrays = self.lease(client, product)
        until = time.perf_counter() + LOCK_SECONDS
        while self._with_gpu and not all(one["locked"] for one in self._list_leases()):
            if time.perf_counter() > until:
                raise BaselineFailed(f"a lease was not page-locked within {LOCK_SECONDS:g} s")
            time.sleep(_PAUSE_SECONDS)
        return arrays

    def lease(self, client: wavetrim.Client, product: Product) -> list[Any]:
        """Arrays in a lease, whether it is page-locked or not."""
        arrays = [client.empty(product.a.shape, product.a.dtype) for _ in "abc"]
        if not self._list_leases():
            raise BaselineFailed("the service gave no lease")
        return arrays

    def _list_leases(self) -> list[Any]:
        with ServiceCalls(str(self._service.unix)) as calls:
            leases: list[Any] = calls.call("GET", "/v1/leases")["leases"]
            return leases


class NewLeaseBaseline(LeaseBaseline):
    """The first product in a new lease, which the engine may not have page-locked yet."""

    name = Name.OURS_NEW_LEASE

    def start(self) -> None:
        """Start the service."""
        super().start()
        if not self._with_gpu:
            raise ServerAbsent("nothing is page-locked without a GPU, so no lease is new for long")

    def multiply(self, products: Sequence[Product], seconds: float, load: Load) -> None:
        """One product in each lease; leases are filled outside the measured time."""
        until = time.perf_counter() + seconds
        while True:
            product = products[len(load.seconds) % len(products)]
            with closing(self.open()) as client:
                arrays = self.lease(client, product)
                ended = multiply_once(client, product, arrays, load)
                product.check_whole(view_bytes(arrays[2]))
            del arrays  # the lease ends with them
            if ended >= until:
                return


def multiply_once(
    client: wavetrim.Client, product: Product, arrays: Sequence[Any], load: Load
) -> float:
    """One product, copied into the arrays first; returns time.perf_counter() at its end."""
    a, b, c = arrays
    np.copyto(a, product.a)
    np.copyto(b, product.b)
    began = time.perf_counter()
    client.matmul(a, b, out=c)
    ended = time.perf_counter()
    load.seconds.append(ended - began)
    product.check_rows(view_bytes(c))
    return ended
