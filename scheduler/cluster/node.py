"""The engine of a node: an actor of Ray that has all of the node's devices.

It computes as the local engine does (`engine/run.py`), by the profile of its own
node. Its arguments lie in Ray's store and are read-only. Rows that a GPU reads are copied into
page-locked memory first.
"""

import os
import socket
import threading
import time
from collections import deque
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import ray

from wavetrim.kernels.transfer.pinned import pin_array
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.cluster.start import OPTIONS_VARIABLE
from wavetrim.scheduler.engine.answer import describe_failure
from wavetrim.scheduler.engine.messages import POISONED_EXIT, RunRequest
from wavetrim.scheduler.engine.process import open_devices
from wavetrim.scheduler.engine.run import Runner
from wavetrim.scheduler.errors import OperandGone
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.options import MachineOptions
from wavetrim.scheduler.product import EngineProduct
from wavetrim.scheduler.profile.store import dump_profile

_CANCELLED: Final = 256
"""Newest cancelled products that a node remembers, as many as the head has with nodes at a time.
Their ids are not used again."""


class NodeEngine:
    """Computes blocks of products with the devices of a node, one at a time.

    Its methods are called through Ray. Those of the group "control" are also called while a block
    is computed.
    """

    def __init__(self) -> None:
        self._executor, self._profiles = open_devices(
            MachineOptions.read(os.environ[OPTIONS_VARIABLE])
        )
        self._runner = Runner(self._executor, self._profiles.find)
        self._kept: dict[str, Matrix] = {}
        self._filled: dict[str, int] = {}  # rows that have come
        self._cancelled = deque[str](maxlen=_CANCELLED)
        self._lock = threading.Lock()

    @ray.method(concurrency_group="control")
    def describe(self) -> dict[str, Any]:
        """The node's devices and profile, for the service's plans."""
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "devices": [asdict(device) for device in self._executor.devices],
            "cpu_threads": self._executor.pool.threads,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "profile": dump_profile(self._profiles.find()),
        }

    @ray.method(concurrency_group="control")
    def echo(self, block: Matrix | None) -> Matrix | None:
        """Send a block back, to measure the network."""
        return block

    @ray.method(concurrency_group="control")
    def measure_in(self, block: Matrix) -> None:
        """Receive a block, and send nothing back."""

    @ray.method(concurrency_group="control")
    def cancel(self, job: str) -> None:
        """Stop a product as soon as its devices can."""
        self._cancelled.append(job)

    @ray.method(concurrency_group="control")
    def keep(self, name: str, shape: tuple[int, int], start_row: int, block: Matrix) -> None:
        """Copy the rows from `start_row` on of an operand of this shape into the node's memory."""
        with self._lock:
            if start_row == 0:
                self._kept[name] = self._make(shape, block.dtype.name)
                self._filled[name] = 0
            if self._filled.get(name) != start_row:
                raise OperandGone(f"operand {name} is not here: the engine has begun anew")
            kept = self._kept[name]
        kept[start_row : start_row + len(block)] = block
        with self._lock:
            self._filled[name] = start_row + len(block)

    @ray.method(concurrency_group="control")
    def forget(self, name: str) -> None:
        """Give back the memory of an operand."""
        with self._lock:
            self._kept.pop(name, None)
            self._filled.pop(name, None)
        self._executor.gpus.forget(name)

    def multiply(
        self, request: RunRequest, b: Matrix | str, a: Matrix, c: Matrix | None, *_parts_of_b: None
    ) -> tuple[Matrix | None, dict[str, Any]]:
        """Compute one block of rows, from those of A and C, and B or the name of a kept one.

        The parts of B are the results of `keep`, so that Ray calls this after B has come.

        Returns:
            The rows of the product, and the message that the local engine would send.
        """
        start = time.perf_counter()
        try:
            dtype = request.out.dtype
            right = self._find_kept(b) if isinstance(b, str) else self._take(b, dtype)
            out = self._make((len(a), right.shape[1]), dtype)
            left = self._take(a, dtype)
            product = EngineProduct(left, right, c, out, request.alpha, request.beta).convert()
            event = self._runner.run_product(
                request, product,
                # A converted B is not the operand of that name.
                b_key=b if isinstance(b, str) and right.dtype.name == dtype else None,
                hooks=Hooks(cancelled=lambda: request.job in self._cancelled),
            )  # fmt: skip
        except Exception as error:  # an error is an answer, and does not end the node
            out, event = None, describe_failure(error)
        event["seconds"] = time.perf_counter() - start
        if event.get("poisoned"):
            os._exit(POISONED_EXIT)  # destroying a lost CUDA context may hang
        return out, event

    def _find_kept(self, name: str) -> Matrix:
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or self._filled[name] != len(kept):
                raise OperandGone(f"operand {name} is not here: the engine has begun anew")
            return kept

    def _take(self, rows: Matrix, dtype: str) -> Matrix:
        """Rows that the devices can read: in page-locked memory if there is a GPU."""
        if not self._executor.devices:
            return rows.astype(dtype, copy=False)
        taken = self._make((len(rows), rows.shape[1]), dtype)
        np.copyto(taken, rows)
        return taken

    def _make(self, shape: tuple[int, int], dtype: str) -> Matrix:
        return pin_array(shape, dtype) if self._executor.devices else np.empty(shape, dtype)
