"""Engines over one piece of shared memory: that of this machine, and nodes of a cluster."""

import asyncio
import mmap
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message, Operand, RunRequest
from wavetrim.service.engine.cluster import Cluster
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import AnyEngine
from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.settings import Settings

_START_SECONDS: Final = 120


class SharedMemory:
    """Memory that engines map, and matrices in it."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.fd = os.memfd_create("benchmark")
        os.ftruncate(self.fd, size_bytes)
        self._memory = np.frombuffer(mmap.mmap(self.fd, size_bytes), np.uint8)
        self._used = 0

    def place(self, matrix: NDArray[Any]) -> Operand:
        """Copy a matrix into the memory."""
        rows, columns = matrix.shape
        operand = Operand(1, self._used, rows, columns, matrix.dtype.name)
        self.read(operand)[...] = matrix
        self._used += -(-matrix.nbytes // 4096) * 4096
        return operand

    def read(self, operand: Operand) -> NDArray[Any]:
        """The elements of a matrix."""
        start = operand.offset_bytes
        elements = np.dtype(operand.dtype)
        size = operand.rows * operand.columns * elements.itemsize
        flat = self._memory[start : start + size].view(elements)
        return flat.reshape(operand.rows, operand.columns)

    def empty(self) -> None:
        """Give up all matrices."""
        self._used = 0


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines that are compared.

    Attributes:
        here: This machine's engine.
        nodes: Those of the cluster.
        memory: The memory that all of them map.
    """

    here: AnyEngine
    nodes: tuple[AnyEngine, ...]
    memory: SharedMemory


@asynccontextmanager
async def start_engines(
    folder: Path, address: str, nodes: int, memory: SharedMemory
) -> AsyncIterator[Engines]:
    """This machine's engine and the nodes of a cluster, ready, until the block ends.

    Args:
        folder: Folder of profiles and compiled C.
        address: Address of the cluster.
        nodes: Number of its nodes.
        memory: The memory that all map.
    """
    settings = Settings(data_dir=folder, devices="none", cpu_threads=1, ray_address=address)
    here, cluster = Engine(settings), Cluster(settings)
    changed = asyncio.Event()
    cluster.on_change = changed.set
    processes: tuple[Supervisor, ...] = (here, cluster)
    try:
        for process in processes:
            await process.start()
        async with asyncio.timeout(_START_SECONDS):
            for process in processes:
                await process.wait_ready()
                message = {"type": "slab", "slab": 1, "size_bytes": memory.size_bytes}
                process.send(message, files=(memory.fd,))
            while len(cluster.nodes) < nodes:
                changed.clear()
                await changed.wait()
        yield Engines(here, tuple(cluster.nodes.values()), memory)
    finally:
        for process in processes:
            await process.stop()


async def compute(engine: AnyEngine, request: RunRequest, job: str, expected: float) -> Message:
    """Have an engine compute a product; its final message."""
    final: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def take(event: Mapping[str, Any]) -> None:
        if event["type"] in FINAL_TYPES:
            final.set_result(event)

    message = replace(request, job=job).as_message()
    engine.start_run({**message, "expected_seconds": expected}, take)
    return await final
