"""The engine of a node: an actor of Ray that has all of the node's devices.

It computes as the local engine does (`wavetrim.scheduler.engine.run`), by the profile of its own
node. Its arguments lie in Ray's store and are read-only. Rows that a GPU reads are copied into
page-locked memory first.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import ray
from numpy.typing import NDArray

from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import select_devices
from wavetrim.kernels.transfer.pinned import pin_array
from wavetrim.scheduler.calibration.cpu import open_profiles
from wavetrim.scheduler.cluster.node_options import NodeOptions
from wavetrim.scheduler.engine.b_fetcher import BFetcher
from wavetrim.scheduler.engine.messages import POISONED_EXIT, STALLED_EXIT
from wavetrim.scheduler.engine.operands import make_product
from wavetrim.scheduler.engine.run import describe_failure, run_product
from wavetrim.scheduler.errors import SchedulerError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.watchdog import Watchdog
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.profile.store import dump_profile

logger = logging.getLogger(__name__)

Matrix = NDArray[Any]

GONE: Final = "gone"
"""Kind of failure after which an operand must be sent again."""


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """One block of rows of a product: out ← alpha A·B + beta C.

    Attributes:
        job: Id that a cancellation names.
        b: Name under which the node keeps B; empty if it comes with the call.
        dtype: Element type of the product, to which operands are converted.
        alpha: Factor of the product.
        beta: Factor of C.
        options: Options of the node's plan.
        verify: Whether the block is checked.
        cpu_only: Whether the CPU computes all rows, whatever the options.
        reports: Whether the answer has all of the plan.
    """

    job: str
    b: str
    dtype: str
    alpha: float
    beta: float
    options: PlanOptions
    verify: bool
    cpu_only: bool
    reports: bool


class OperandGone(SchedulerError):
    """An operand that the node was to keep is not there."""


class NodeEngine:
    """Computes blocks of products with the devices of a node, one at a time.

    Its methods are called through Ray. Those of the group "control" are also called while a block
    is computed.
    """

    def __init__(self) -> None:
        options = NodeOptions.read(os.environ)
        self._executor = Executor(
            cache_dir=options.cache_dir,
            devices=select_devices(options.devices),
            cpu_threads=options.cpu_threads or usable_cores(),
            gpu_memory_bytes=options.gpu_memory_bytes,
            watchdog=Watchdog(options.stall_seconds, _end_stalled),
        )
        self._executor.pool.prepare()
        if options.profile_dir is not None:
            options.profile_dir.mkdir(parents=True, exist_ok=True)
        self._profiles = open_profiles(self._executor, options.profile_dir)
        self._plans = PlanCache()
        self._fetcher = BFetcher(self._executor.residents, self._plans)
        self._kept: dict[str, Matrix] = {}
        self._filled: dict[str, int] = {}
        self._cancelled: set[str] = set()
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
        """Stop a product as soon as its devices can; `forget_cancel` is to follow."""
        self._cancelled.add(job)

    def forget_cancel(self, job: str, _cancelled: None) -> None:
        """Forget a cancellation, after the product's blocks: it is not of the group "control".

        Args:
            job: The product.
            _cancelled: The result of `cancel`, so that Ray calls this after it.
        """
        self._cancelled.discard(job)

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
        self._executor.residents.forget(name)

    def multiply(
        self, request: BlockRequest, a: Matrix, c: Matrix | None, *_parts_of_b: None
    ) -> tuple[Matrix | None, dict[str, Any]]:
        """Compute one block of rows.

        Args:
            request: The block.
            a: Its rows of A, which Ray brings here before the call.
            c: Its rows of C; None if beta is 0.
            _parts_of_b: The results of `keep`, so that Ray calls this after B has come.

        Returns:
            The rows of the product, and the message that the local engine would send.
        """
        return self._answer(request, a, lambda: self._find_kept(request.b), c)

    def multiply_whole(
        self, request: BlockRequest, a: Matrix, b: Matrix, c: Matrix | None
    ) -> tuple[Matrix | None, dict[str, Any]]:
        """Compute a product whose operands come with the call. They are not kept."""
        return self._answer(request, a, lambda: self._take(b, request.dtype), c)

    def _answer(
        self,
        request: BlockRequest,
        a: Matrix,
        find_b: Callable[[], Matrix],
        c: Matrix | None,
    ) -> tuple[Matrix | None, dict[str, Any]]:
        start = time.perf_counter()
        try:
            out, event = self._multiply(request, a, find_b(), c)
        except OperandGone as error:
            out, event = None, {
                "type": "failed", "kind": GONE, "message": str(error), "retryable": True,
            }  # fmt: skip
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

    def _multiply(
        self, request: BlockRequest, a: Matrix, b: Matrix, c: Matrix | None
    ) -> tuple[Matrix, dict[str, Any]]:
        # A converted B is not the operand of that name, and one that is not kept has no name.
        b_key = request.b if request.b and b.dtype.name == request.dtype else None
        out = self._make((len(a), b.shape[1]), request.dtype)
        product = make_product(
            self._take(a, request.dtype), b, c, out, alpha=request.alpha, beta=request.beta
        )
        event = run_product(
            product, self._executor,
            self._profiles.find("cpu" if request.cpu_only else None),
            options=request.options, verify=request.verify, cpu_only=request.cpu_only,
            reports=request.reports, plans=self._plans, fetcher=self._fetcher, b_key=b_key,
            cancelled=lambda: request.job in self._cancelled,
        )  # fmt: skip
        return out, event

    def _take(self, rows: Matrix, dtype: str) -> Matrix:
        """Rows that the devices can read: in page-locked memory if there is a GPU."""
        if not self._executor.devices:
            return rows.astype(dtype, copy=False)
        taken = self._make((len(rows), rows.shape[1]), dtype)
        np.copyto(taken, rows)
        return taken

    def _make(self, shape: tuple[int, int], dtype: str) -> Matrix:
        return pin_array(shape, dtype) if self._executor.devices else np.empty(shape, dtype)


def _end_stalled(seconds: float) -> None:
    logger.error("the GPU has made no progress for %.0f s; the node's engine ends", seconds)
    os._exit(STALLED_EXIT)
