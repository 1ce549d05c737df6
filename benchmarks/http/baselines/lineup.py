"""All baselines: the floor, the service in each way to reach it, and the peers."""

from pathlib import Path

from benchmarks.http.baselines.baseline import Baseline, Name, Setup
from benchmarks.http.baselines.client_library import ClientBaseline, LeaseBaseline, NewLeaseBaseline
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.server_process import (
    ServerProcess,
    SharedServer,
    Started,
    start_server,
)
from benchmarks.http.baselines.service import Service
from benchmarks.http.baselines.triton_client import TritonClientBaseline
from benchmarks.http.baselines.wire import FloorBaseline, WireBaseline
from benchmarks.http.clients.message import request_npy, request_triton
from benchmarks.http.clients.product import Product


def make_baselines(setup: Setup, service: Service) -> dict[str, Baseline]:
    """All of them, by name; none is started."""
    folder, pytriton = setup.folder, _make_pytriton(setup)
    baselines: list[Baseline] = [
        ExecutorBaseline(setup),
        FloorBaseline(Name.FLOOR, lambda: start_floor(folder, Name.FLOOR), ask_peer),
        FloorBaseline(Name.FLOOR_UNIX, lambda: start_floor(folder, Name.FLOOR_UNIX), ask_peer),
        WireBaseline(Name.OURS, service.start, ask_service),
        WireBaseline(Name.OURS_UNIX, service.start_unix, ask_service),
        ClientBaseline(service),
        LeaseBaseline(service),
        NewLeaseBaseline(service),
        WireBaseline(Name.NUMPY, lambda: _start_fastapi(folder, Name.NUMPY), ask_peer),
        WireBaseline(Name.CUPY, lambda: _start_fastapi(folder, Name.CUPY), ask_peer),
        WireBaseline(Name.OURS_V2, service.start, _ask_v2),
        TritonClientBaseline(Name.OURS_V2_CLIENT, service.start, lambda _: "matmul"),
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


def _make_pytriton(setup: Setup) -> SharedServer:
    def launch(port: int) -> ServerProcess:
        return ServerProcess(
            setup.folder / "pytriton.log",
            "benchmarks.http.servers.peer_pytriton",
            *("--port", str(port)),
            python=setup.pytriton,
        )

    return SharedServer(launch, "/v2/models/matmul_float64/ready")
