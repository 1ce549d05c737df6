"""All baselines: the floor, the service in each way to reach it, and the peers."""

from pathlib import Path

from benchmarks.http.baselines.baseline import Baseline, Name, Setup
from benchmarks.http.baselines.client_library import ClientBaseline, LeaseBaseline, NewLeaseBaseline
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.server_process import (
    ServerAbsent,
    ServerProcess,
    Started,
    start_server,
)
from benchmarks.http.baselines.service import Service
from benchmarks.http.baselines.triton_client import TritonClientBaseline
from benchmarks.http.baselines.wire import FloorBaseline, WireBaseline
from benchmarks.http.clients.message import request_npy, request_triton
from benchmarks.http.clients.product import Product
from deploy.readiness import find_free_port


def make_baselines(setup: Setup, service: Service) -> dict[str, Baseline]:
    """All of them, by name; none is started."""
    folder, pytriton = setup.folder, PyTriton(setup)
    baselines: list[Baseline] = [
        ExecutorBaseline(setup),
        FloorBaseline(Name.FLOOR, lambda: start_floor(folder, Name.FLOOR), ask_peer),
        FloorBaseline(Name.FLOOR_UNIX, lambda: start_floor(folder, Name.FLOOR_UNIX), ask_peer),
        WireBaseline(Name.OURS, service.start_tcp, ask_service),
        WireBaseline(Name.OURS_UNIX, service.start_unix, ask_service),
        ClientBaseline(service),
        LeaseBaseline(service),
        NewLeaseBaseline(service),
        WireBaseline(Name.NUMPY, lambda: _start_fastapi(folder, Name.NUMPY), ask_peer),
        WireBaseline(Name.CUPY, lambda: _start_fastapi(folder, Name.CUPY), ask_peer),
        WireBaseline(Name.OURS_V2, service.start_tcp, _ask_v2),
        TritonClientBaseline(Name.OURS_V2_CLIENT, service.start_tcp, lambda _: "matmul"),
        WireBaseline(Name.PYTRITON, pytriton.start, _ask_triton),
        TritonClientBaseline(Name.PYTRITON_CLIENT, pytriton.start, _name_model),
    ]
    return {baseline.name: baseline for baseline in baselines}


def ask_service(product: Product) -> bytearray:
    """The request for a product of the service."""
    return request_npy("/v1/matmul", product.a, product.b)


def ask_peer(product: Product) -> bytearray:
    """The request for a product of a peer."""
    return request_npy("/matmul", product.a, product.b)


def _ask_triton(product: Product) -> bytearray:
    path = f"/v2/models/{_name_model(product.a.dtype.name)}/infer"
    return request_triton(path, product.a, product.b)


def _ask_v2(product: Product) -> bytearray:
    return request_triton("/v2/models/matmul/infer", product.a, product.b)


def _name_model(dtype: str) -> str:
    return f"matmul_{dtype}"


def start_floor(folder: Path, name: str) -> Started:
    """Start the floor's server, over TCP or a Unix socket."""
    unix = folder / "floor.sock" if name == Name.FLOOR_UNIX else None
    return start_server(folder / f"{name}.log", "benchmarks.http.servers.floor", unix=unix)


def _start_fastapi(folder: Path, name: str) -> Started:
    """Start one of the peers that uvicorn serves."""
    command = (f"benchmarks.http.servers.peer_{name}:app", "--no-access-log")
    return start_server(folder / f"{name}.log", "uvicorn", *command, "--log-level", "warning")


class PyTriton:
    """PyTriton's server, started once for both of its baselines."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process: ServerProcess | None = None
        self._refusal: str | None = None
        self._port = 0

    def start(self) -> Started:
        """Start it, unless it runs, and return where it listens.

        Raises:
            ServerAbsent: It does not become ready.
        """
        if self._refusal is not None:
            raise ServerAbsent(self._refusal)
        if self._process is None:
            self._port = find_free_port()
            self._process = ServerProcess(
                self._setup.folder / "pytriton.log",
                "benchmarks.http.servers.peer_pytriton",
                *("--port", str(self._port)),
                python=self._setup.pytriton,
            )
            try:
                self._process.wait_answering(self._port, "/v2/models/matmul_float64/ready")
            except ServerAbsent as error:
                self._refusal = str(error)
                raise
        return ("127.0.0.1", self._port), self.stop

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.stop()
            self._process = None
