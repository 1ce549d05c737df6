"""Who takes part: the floor, the service by each of its ways, and the peers.

Each is started once; one that does not run here says why. All of them take the same turns.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks.http.baselines.baseline import (
    CUPY,
    FLOOR,
    FLOOR_UNIX,
    NUMPY,
    OURS,
    OURS_UNIX,
    PYTRITON,
    Baseline,
    Setup,
)
from benchmarks.http.baselines.client_library import (
    ClientBaseline,
    LeaseBaseline,
    NewLeaseBaseline,
)
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.server_process import (
    ServerAbsent,
    ServerProcess,
    find_free_port,
    run_module,
)
from benchmarks.http.baselines.service import Service
from benchmarks.http.baselines.wire import FloorBaseline, WireBaseline
from benchmarks.http.clients.connection import Address
from benchmarks.http.clients.message import request_npy, request_triton
from benchmarks.http.clients.product import Product


def start_floor(folder: Path, name: str) -> tuple[Address, Callable[[], None]]:
    """Start the floor's server, over TCP or a Unix socket."""
    if name == FLOOR_UNIX:
        address: Address = str(folder / "floor.sock")
        where = ["--unix", str(address)]
    else:
        address = ("127.0.0.1", find_free_port())
        where = ["--port", str(address[1])]
    process = ServerProcess(
        run_module("benchmarks.http.servers.floor", *where), folder / f"{name}.log"
    )
    return _await(process, lambda: process.wait_connected(address), address)


def start_fastapi(folder: Path, name: str) -> tuple[Address, Callable[[], None]]:
    """Start one of the peers that uvicorn serves."""
    port = find_free_port()
    command = ["--port", str(port), "--no-access-log", "--log-level", "warning"]
    process = ServerProcess(
        run_module("uvicorn", f"benchmarks.http.servers.peer_{name}:app", *command),
        folder / f"{name}.log",
    )
    address = ("127.0.0.1", port)
    return _await(process, lambda: process.wait_connected(address), address)


def start_pytriton(setup: Setup) -> tuple[Address, Callable[[], None]]:
    """Start PyTriton."""
    port = find_free_port()
    process = ServerProcess(
        run_module(
            "benchmarks.http.servers.peer_pytriton", "--port", str(port), python=setup.pytriton
        ),
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


def ask_service(product: Product) -> bytearray:
    """The request for a product of the service."""
    return request_npy("/v1/matmul", product.a, product.b)


def make_baselines(setup: Setup, service: Service) -> dict[str, Baseline]:
    """All of them, by name; none is started."""
    folder = setup.folder

    def ask_peer(product: Product) -> bytearray:
        return request_npy("/matmul", product.a, product.b)

    def ask_triton(product: Product) -> bytearray:
        path = f"/v2/models/matmul_{product.a.dtype.name}/infer"
        return request_triton(path, product.a, product.b)

    baselines: list[Baseline] = [
        ExecutorBaseline(setup),
        FloorBaseline(FLOOR, lambda: start_floor(folder, FLOOR), ask_peer),
        FloorBaseline(FLOOR_UNIX, lambda: start_floor(folder, FLOOR_UNIX), ask_peer),
        WireBaseline(OURS, service.start_tcp, ask_service),
        WireBaseline(OURS_UNIX, service.start_unix, ask_service),
        ClientBaseline(service),
        LeaseBaseline(service),
        NewLeaseBaseline(service),
        WireBaseline(NUMPY, lambda: start_fastapi(folder, NUMPY), ask_peer),
        WireBaseline(CUPY, lambda: start_fastapi(folder, CUPY), ask_peer),
        WireBaseline(PYTRITON, lambda: start_pytriton(setup), ask_triton),
    ]
    return {baseline.name: baseline for baseline in baselines}
