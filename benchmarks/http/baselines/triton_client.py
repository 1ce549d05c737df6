"""Servers of the Open Inference Protocol, asked by its public client, `tritonclient`."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from benchmarks.http.baselines.baseline import Baseline, BaselineFailed
from benchmarks.http.baselines.server_process import ServerAbsent, Started
from benchmarks.http.clients.load import Load
from benchmarks.http.clients.message import TRITON_TYPES, view_bytes
from benchmarks.http.clients.product import Product, WrongAnswer
from benchmarks.http.rows import Case


class TritonClientBaseline(Baseline):
    """`tritonclient.http`, by one caller, with arrays in the caller's memory.

    Args:
        name: Its name in rows.
        start: Starts the server, unless it runs.
        find_model: Returns the model of an element type.
    """

    def __init__(
        self, name: str, start: Callable[[], Started], find_model: Callable[[str], str]
    ) -> None:
        self.name = name
        self._start = start
        self._find_model = find_model
        self._stop: Callable[[], None] | None = None
        self._url = ""

    def start(self) -> None:
        """Start the server."""
        try:
            import tritonclient.http  # noqa: F401
        except ImportError as error:
            raise ServerAbsent(f"tritonclient is not installed: {error}") from error
        address, self._stop = self._start()
        assert not isinstance(address, str), "it listens on TCP"
        self._url = f"{address[0]}:{address[1]}"

    def stop(self) -> None:
        """End the server."""
        if self._stop is not None:
            self._stop()

    def takes_part(self, case: Case) -> bool:
        """Only with one client: most of its time is the client's."""
        return case.clients == 1

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Multiply for some time."""
        del clients
        from tritonclient.http import InferenceServerClient
        from tritonclient.utils import InferenceServerException

        load = Load()
        try:
            with closing(InferenceServerClient(self._url)) as client:
                until = time.perf_counter() + seconds
                while True:
                    product = products[len(load.seconds) % len(products)]
                    began = time.perf_counter()
                    result = self._infer(client, product)
                    ended = time.perf_counter()
                    load.seconds.append(ended - began)
                    product.check_rows(view_bytes(result))
                    if ended >= until:
                        break
                product.check_whole(view_bytes(result))
        except (WrongAnswer, OSError):
            raise
        except InferenceServerException as error:
            raise BaselineFailed(str(error)) from error
        load.elapsed_seconds = sum(load.seconds)
        return load

    def _infer(self, client: Any, product: Product) -> Any:
        from tritonclient.http import InferInput, InferRequestedOutput

        dtype = product.a.dtype.name
        inputs = []
        for name, matrix in (("A", product.a), ("B", product.b)):
            one = InferInput(name, list(matrix.shape), TRITON_TYPES[dtype])
            inputs.append(one.set_data_from_numpy(matrix))
        outputs = [InferRequestedOutput("C")]
        answer = client.infer(self._find_model(dtype), inputs, outputs=outputs)
        return answer.as_numpy("C")
