"""Who takes part: the floor, the service by each of its ways, and the peers.

Each is started once; one that does not run here says why. All of them take the same turns.
"""

import inspect
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.executor_process import KERNELS, PROFILES, ExecutorFailed, ExecutorProcess
from benchmarks.http.connection import Address, Call
from benchmarks.http.load import Load, apply_load
from benchmarks.http.message import (
    encode_npy,
    make_request,
    request_npy,
    request_triton,
    view_bytes,
)
from benchmarks.http.product import Product, WrongAnswer
from benchmarks.http.rows import Case
from benchmarks.http.server_process import (
    ServerAbsent,
    ServerProcess,
    find_free_port,
    run_module,
)

FLOOR: Final = "floor"
FLOOR_UNIX: Final = "floor-unix"
EXECUTOR: Final = "executor"
OURS: Final = "wavetrim"
OURS_UNIX: Final = "wavetrim-unix"
OURS_LEASE: Final = "wavetrim-lease"
NUMPY: Final = "numpy"
CUPY: Final = "cupy"
PYTRITON: Final = "pytriton"

NPY_HEADER_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class Setup:
    """What all contenders know.

    Attributes:
        folder: For data, logs, sockets; removed at the end.
        profile: A file with the machine's profile; without it, the machine is calibrated.
        pytriton: The interpreter that has PyTriton.
    """

    folder: Path
    profile: Path | None = None
    pytriton: str = sys.executable


class Contender(ABC):
    """One way to get a product.

    Attributes:
        name: What rows call it.
    """

    name: str

    @abstractmethod
    def start(self) -> None:
        """Start what it needs.

        Raises:
            ServerAbsent: It does not run here.
        """

    def abstain(self, case: Case) -> str | None:
        """Why it does not take part in a case; None where it does."""
        del case
        return None

    @abstractmethod
    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Let clients ask for the products for some time.

        Raises:
            WrongAnswer: An answer is not its product.
            OSError: A connection broke.
            AnswerMalformed: An answer is no HTTP.
        """

    def stop(self) -> None:
        """End what was started; some start nothing of their own."""
        return


class WireContender(Contender):
    """A server that is asked over a socket.

    Args:
        name: What rows call it.
        start: Starts the server, or finds it started, and returns where it listens and how it is
            ended.
        ask: A product's request.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], tuple[Address, Callable[[], None]]],
        ask: Callable[[Product], bytearray],
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
        return Call(
            request=self._ask(product),
            answer_bytes=product.answer_bytes,
            row_bytes=product.answer_bytes // product.size,
            check_rows=product.check_rows,
            check_whole=product.check_whole,
        )


class FloorContender(WireContender):
    """The same bytes in plain sockets; the answer is the beginning of the request's body."""

    def make_call(self, product: Product) -> Call:
        """A request whose answer is as long as the product's."""
        parts = [*encode_npy(product.a), *encode_npy(product.b)]
        answer_bytes = NPY_HEADER_BYTES + product.answer_bytes
        expected = b"".join((parts[0], parts[1]))

        def check(data: memoryview) -> None:
            if data != expected:
                raise WrongAnswer("the floor's answer is not what was sent")

        def check_ends(data: memoryview) -> None:
            if bytes(data[:64]) != expected[:64] or bytes(data[-64:]) != expected[-64:]:
                raise WrongAnswer("the floor's answer is not what was sent")

        request = make_request(f"/{answer_bytes}", parts)
        return Call(
            request=request,
            answer_bytes=answer_bytes,
            row_bytes=64,
            check_rows=check_ends,
            check_whole=check,
        )


class ExecutorContender(Contender):
    """The executor in a process of its own: no socket, no bytes moved, one product at a time."""

    name = EXECUTOR

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process: ExecutorProcess | None = None
        self._product: dict[str, Any] = {}

    def start(self) -> None:
        """Start the process, which calibrates the machine where no profile was given."""
        try:
            self._process = ExecutorProcess(self._setup.folder, self._setup.profile)
        except ExecutorFailed as error:
            raise ServerAbsent(str(error)) from error

    @property
    def profile(self) -> dict[str, Any]:
        """The profile that it runs with."""
        assert self._process is not None, "it was started"
        return self._process.profile

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Compute products one after the other, whoever asks."""
        del clients
        return self.run(products[0].size, products[0].a.dtype.name, seconds)

    def run(self, size: int, dtype: str, seconds: float) -> Load:
        """Compute a square product for some time."""
        return self.run_shape((size, size, size), dtype, seconds)

    def run_shape(self, shape: tuple[int, int, int], dtype: str, seconds: float) -> Load:
        """Compute a product for some time; the first one of a shape does not count."""
        assert self._process is not None, "start comes before measure"
        product = {**dict(zip("mnk", shape, strict=True)), "dtype": dtype}
        if product != self._product:
            self._process.run(**product)
            self._product = product
        load = Load()
        began = time.perf_counter()
        while True:
            load.seconds.append(self._process.run()["total_seconds"])
            load.elapsed_seconds = time.perf_counter() - began
            if load.elapsed_seconds >= seconds:
                return load

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.__exit__(None, None, None)


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


def start_floor(folder: Path, name: str) -> tuple[Address, Callable[[], None]]:
    """Start the floor's server, over TCP or a Unix socket."""
    if name == FLOOR_UNIX:
        address: Address = str(folder / "floor.sock")
        where = ["--unix", str(address)]
    else:
        address = ("127.0.0.1", find_free_port())
        where = ["--port", str(address[1])]
    process = ServerProcess(run_module("benchmarks.http.floor", *where), folder / f"{name}.log")
    return _await(process, lambda: process.wait_connected(address), address)


def start_fastapi(folder: Path, name: str) -> tuple[Address, Callable[[], None]]:
    """Start one of the peers that uvicorn serves."""
    port = find_free_port()
    command = ["--port", str(port), "--no-access-log", "--log-level", "warning"]
    process = ServerProcess(
        run_module("uvicorn", f"benchmarks.http.peer_{name}:app", *command), folder / f"{name}.log"
    )
    address = ("127.0.0.1", port)
    return _await(process, lambda: process.wait_connected(address), address)


def start_pytriton(setup: Setup) -> tuple[Address, Callable[[], None]]:
    """Start PyTriton."""
    port = find_free_port()
    process = ServerProcess(
        run_module("benchmarks.http.peer_pytriton", "--port", str(port), python=setup.pytriton),
        setup.folder / "pytriton.log",
    )
    ready = "/v2/models/matmul_float64/ready"
    return _await(process, lambda: process.wait_answering(port, ready), ("127.0.0.1", port))


def _await(
    process: ServerProcess, wait: Callable[[], None], address: Address
) -> tuple[Address, Callable[[], None]]:
    try:
        wait()
    except ServerAbsent:
        process.stop()
        raise
    return address, process.stop


def make_contenders(setup: Setup) -> dict[str, Contender]:
    """All of them, by name; none is started."""
    service = Service(setup)
    folder = setup.folder

    def ask_peer(product: Product) -> bytearray:
        return request_npy("/matmul", product.a, product.b)

    def ask_service(product: Product) -> bytearray:
        return request_npy("/v1/matmul", product.a, product.b)

    def ask_triton(product: Product) -> bytearray:
        path = f"/v2/models/matmul_{product.a.dtype.name}/infer"
        return request_triton(path, product.a, product.b)

    contenders: list[Contender] = [
        ExecutorContender(setup),
        FloorContender(FLOOR, lambda: start_floor(folder, FLOOR), ask_peer),
        FloorContender(FLOOR_UNIX, lambda: start_floor(folder, FLOOR_UNIX), ask_peer),
        WireContender(OURS, service.start_tcp, ask_service),
        WireContender(OURS_UNIX, service.start_unix, ask_service),
        LeaseContender(service),
        WireContender(NUMPY, lambda: start_fastapi(folder, NUMPY), ask_peer),
        WireContender(CUPY, lambda: start_fastapi(folder, CUPY), ask_peer),
        WireContender(PYTRITON, lambda: start_pytriton(setup), ask_triton),
    ]
    return {contender.name: contender for contender in contenders}
