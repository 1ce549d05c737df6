"""The service, as the benchmark starts it, and the client library that leases memory of it."""

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.executor_process import KERNELS, PROFILES
from benchmarks.http.connection import Address
from benchmarks.http.contender import OURS_LEASE, Contender, Setup
from benchmarks.http.load import Load
from benchmarks.http.message import view_bytes
from benchmarks.http.product import Product
from benchmarks.http.rows import Case
from benchmarks.http.server_process import (
    ServerAbsent,
    ServerProcess,
    find_free_port,
    run_module,
)


class Service:
    """The service, started once for all the ways to it."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process: ServerProcess | None = None
        self._refusal: str | None = None
        self.port = 0
        self.unix = setup.folder / "wavetrim.sock"

    @property
    def pid(self) -> int:
        """Of the service's process."""
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        """Start it, if it was not.

        Raises:
            ServerAbsent: It does not become ready.
        """
        if self._refusal is not None:
            raise ServerAbsent(self._refusal)
        if self._process is not None:
            return
        folder = self._setup.folder
        self.port = find_free_port()
        settings = {
            "WAVETRIM_UNIX_SOCKET": str(self.unix),
            "WAVETRIM_PROFILE_DIR": str(folder / PROFILES),
            "WAVETRIM_KERNEL_CACHE_DIR": str(folder / KERNELS),
            "WAVETRIM_API_KEY": None,
            "WAVETRIM_DATABASE_URL": None,
        }
        command = ["serve", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--data-dir", str(folder / "data")]
        self._process = ServerProcess(
            run_module("wavetrim", *command), folder / "service.log", settings
        )
        try:
            self._process.wait_answering(self.port, "/healthz/ready")
        except ServerAbsent as error:
            self._refusal = str(error)
            raise

    def start_tcp(self) -> tuple[Address, Callable[[], None]]:
        """Start it, and say where it listens."""
        self.start()
        return ("127.0.0.1", self.port), self.stop

    def start_unix(self) -> tuple[Address, Callable[[], None]]:
        """Likewise, of its Unix socket."""
        self.start()
        if not self.unix.is_socket():
            raise ServerAbsent("the service made no Unix socket")
        return str(self.unix), self.stop

    def stop(self) -> None:
        """End it; a second call finds it ended."""
        if self._process is not None:
            self._process.stop()
            self._process = None


class LeaseContender(Contender):
    """The client library on the same host: operands and results lie in a lease.

    Args:
        service: Of the benchmark.
    """

    name = OURS_LEASE

    def __init__(self, service: Service) -> None:
        self._service = service

    def start(self) -> None:
        """Start the service, and see whether the library can lease."""
        address, _ = self._service.start_unix()
        client = self._open(str(address))
        client.close()

    def abstain(self, case: Case) -> str | None:
        """One client only: a lease is a caller's own."""
        return None if case.clients == 1 else "one caller has one lease"

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Multiply arrays that lie in the lease into one that does."""
        del clients
        client = self._open(str(self._service.unix))
        try:
            size, dtype = products[0].size, products[0].a.dtype
            a, b, c = (client.empty((size, size), dtype) for _ in "abc")
            load = Load()
            until = time.perf_counter() + seconds
            begun = time.perf_counter()
            while True:
                product = products[len(load.seconds) % len(products)]
                np.copyto(a, product.a)
                np.copyto(b, product.b)
                began = time.perf_counter()
                client.matmul(a, b, out=c)
                load.seconds.append(time.perf_counter() - began)
                product.check_whole(view_bytes(np.ascontiguousarray(c)))
                if time.perf_counter() >= until:
                    break
            load.elapsed_seconds = time.perf_counter() - begun
            return load
        finally:
            client.close()

    def _open(self, socket: str) -> Any:
        import wavetrim

        make = getattr(wavetrim, "Client", None)
        if make is None or "out" not in inspect.signature(make.matmul).parameters:
            raise ServerAbsent("wavetrim.Client does not multiply into a lease")
        return make(socket)
