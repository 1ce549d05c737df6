"""The executor by itself: what a product takes where its operands are."""

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.http.baselines.baseline import EXECUTOR, Baseline, Setup
from benchmarks.http.baselines.executor_process import ExecutorFailed, ExecutorProcess
from benchmarks.http.baselines.server_process import ServerAbsent
from benchmarks.http.clients.load import Load
from benchmarks.http.clients.product import Product
from benchmarks.kernels.measured import Shape


class ExecutorBaseline(Baseline):
    """The executor in a process of its own: no socket, no bytes moved, one product at a time.

    Its operands are page-locked where there is a GPU.

    Args:
        setup: What all baselines know.
    """

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

    def run_shape(self, shape: Shape, dtype: str, seconds: float) -> Load:
        """Compute a product for some time; the first one of a shape does not count."""
        assert self._process is not None, "start comes before measure"
        product = {**dict(zip("mnk", shape, strict=True)), "dtype": dtype}
        if self._process.profile.get("gpu") is not None:
            product["memory"] = "pinned"
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
