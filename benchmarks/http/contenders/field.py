"""Who takes part: the floor, the service by each of its ways, and the peers.

Each is started once; one that does not run here says why. All of them take the same turns.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks.http.clients.connection import Address
from benchmarks.http.clients.message import request_npy, request_triton
from benchmarks.http.clients.product import Product
from benchmarks.http.contenders.client_library import (
    ClientContender,
    LeaseContender,
    NewLeaseContender,
)
from benchmarks.http.contenders.contender import (
    CUPY,
    FLOOR,
    FLOOR_UNIX,
    NUMPY,
    OURS,
    OURS_UNIX,
    PYTRITON,
    Contender,
    Setup,
)
from benchmarks.http.contenders.executor import ExecutorContender
from benchmarks.http.contenders.server_process import (
    ServerAbsent,
    ServerProcess,
    find_free_port,
    run_module,
)
from benchmarks.http.contenders.service import Service
from benchmarks.http.contenders.wire import FloorContender, WireContender


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


def make_contenders(setup: Setup, service: Service) -> dict[str, Contender]:
    """All of them, by name; none is started."""
    folder = setup.folder

    def ask_peer(product: Product) -> bytearray:
        return request_npy("/matmul", product.a, product.b)

    def ask_triton(product: Product) -> bytearray:
        path = f"/v2/models/matmul_{product.a.dtype.name}/infer"
        return request_triton(path, product.a, product.b)

    contenders: list[Contender] = [
        ExecutorContender(setup),
        FloorContender(FLOOR, lambda: start_floor(folder, FLOOR), ask_peer),
        FloorContender(FLOOR_UNIX, lambda: start_floor(folder, FLOOR_UNIX), ask_peer),
        WireContender(OURS, service.start_tcp, ask_service),
        WireContender(OURS_UNIX, service.start_unix, ask_service),
        ClientContender(service),
        LeaseContender(service),
        NewLeaseContender(service),
        WireContender(NUMPY, lambda: start_fastapi(folder, NUMPY), ask_peer),
        WireContender(CUPY, lambda: start_fastapi(folder, CUPY), ask_peer),
        WireContender(PYTRITON, lambda: start_pytriton(setup), ask_triton),
    ]
    return {contender.name: contender for contender in contenders}
