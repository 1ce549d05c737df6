"""The client library: over TCP, and with operands and results in a lease."""

import inspect
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

from benchmarks.http.clients.load import Load
from benchmarks.http.clients.message import view_bytes
from benchmarks.http.clients.product import Product, WrongAnswer
from benchmarks.http.contenders.contender import OURS_CLIENT, OURS_LEASE, Contender, ContenderFailed
from benchmarks.http.contenders.server_process import ServerAbsent
from benchmarks.http.contenders.service import Service
from benchmarks.http.rows import Case


class ClientContender(Contender):
    """`wavetrim.Client(...).matmul(a, b, out=c)`, by one caller.

    Args:
        service: Of the benchmark.
        leased: Whether a, b and c lie in a lease, so that no bytes are sent; else they lie in
            memory of the caller's and go over TCP.
    """

    def __init__(self, service: Service, *, leased: bool) -> None:
        self.name = OURS_LEASE if leased else OURS_CLIENT
        self._service = service
        self._leased = leased

    def start(self) -> None:
        """Start the service, and see whether the library can do it."""
        self._service.start_tcp()
        if self._leased:
            self._service.start_unix()
        try:
            with closing(self._open()) as client:
                self._allocate(client, 8, np.dtype(np.float32))
        except ServerAbsent:
            raise
        except Exception as error:
            raise ServerAbsent(f"{type(error).__name__}: {error}") from error

    def abstain(self, case: Case) -> str | None:
        """One caller only: it shows what the library costs, not what the service stands."""
        return None if case.clients == 1 else "one caller has one client"

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Multiply arrays of the caller's, or of the lease, into one of the same kind."""
        del clients
        try:
            with closing(self._open()) as client:
                return self._multiply(client, products, seconds)
        except WrongAnswer:
            raise
        except Exception as error:
            raise ContenderFailed(f"{type(error).__name__}: {error}") from error

    def _multiply(self, client: Any, products: Sequence[Product], seconds: float) -> Load:
        load = Load()
        a, b, c = (self._allocate(client, products[0].size, products[0].a.dtype) for _ in "abc")
        until = time.perf_counter() + seconds
        while True:
            product = products[len(load.seconds) % len(products)]
            np.copyto(a, product.a)
            np.copyto(b, product.b)
            began = time.perf_counter()
            client.matmul(a, b, out=c)
            ended = time.perf_counter()
            load.seconds.append(ended - began)
            product.check_rows(view_bytes(c))
            if ended >= until:
                break
        product.check_whole(view_bytes(c))
        load.elapsed_seconds = sum(load.seconds)
        return load

    def _open(self) -> Any:
        import wavetrim

        make = getattr(wavetrim, "Client", None)
        if make is None or "out" not in inspect.signature(make.matmul).parameters:
            raise ServerAbsent("there is no wavetrim.Client whose matmul takes out=")
        if not self._leased:
            return make(f"http://127.0.0.1:{self._service.port}")
        if not hasattr(make, "empty"):
            raise ServerAbsent("wavetrim.Client has no empty(shape, dtype), so nothing to lease by")
        return make(str(self._service.unix))

    def _allocate(self, client: Any, size: int, dtype: "np.dtype[Any]") -> Any:
        return (client if self._leased else np).empty((size, size), dtype)
