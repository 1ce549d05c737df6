"""The client for blocking callers."""

from typing import Any, Unpack

import numpy as np
from numpy.typing import DTypeLike

from .errors import ServiceBusy
from .jobs import Jobs
from .options import PlanOptions, PlanQuestion, check_names, describe_options, read_scalar
from .products import Products
from .records import Health
from .wire.calls import Calls
from .wire.request import Request
from .wire.retries import Retries


class Client(Products, Jobs):
    """A client of one service: a context manager, and safe for several threads.

    Every call raises `ServiceUnreachable` if there is no answer, `ServiceBusy` if the service
    accepts no work now, and `ServiceRefused` with the problem document for any other refusal. A
    call whose connection breaks is repeated after a short pause if that cannot do anything twice.
    So is a call that the service puts off by a few seconds (503 with Retry-After).

    Args:
        url: "http://host:8000", "https://host", or a Unix socket: "/run/wavetrim.sock",
            "unix:/run/wavetrim.sock".
        api_key: Bearer token, if the service requires one.
        timeout: Longest silence of the service within one call, in seconds; None for no limit.
            The service is silent while it computes a product.
        retries: How often a call is repeated at most.
        tls_context: TLS settings; None for the system's certificates.

    Raises:
        ValueError: An argument is not valid.
    """

    def plan(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: DTypeLike = "float32",
        memory: str = "pageable",
        device: str | None = None,
        **options: Unpack[PlanQuestion],
    ) -> dict[str, Any]:
        """How the service would split a product: F, waves, predicted seconds, the curve.

        Args:
            m: Rows of A and of the product.
            n: Columns of B and of the product.
            k: Columns of A, rows of B.
            dtype: Element type.
            memory: "pageable" or "pinned".
            device: Preset of a GPU, which need not be there ("H200"); None for the service's GPUs.
            **options: See `PlanQuestion`: f, kernel, tile, accuracy, sms, devices; and in place of
                the machine's own numbers cpu_threads, cpu_gflops, link_gbytes_per_second, resident.
        """
        check_names(options, PlanQuestion, "dtype", "memory", "device")
        asked: dict[str, Any] = {**options}
        supposed = {
            name: read_scalar(asked.pop(name))
            for name in PlanQuestion.__annotations__
            if name not in PlanOptions.__annotations__ and name in asked
        }
        sizes = {"m": m, "n": n, "k": k, "dtype": np.dtype(dtype).name, "memory": memory}
        plan: dict[str, Any] = self._calls.get(
            "/v1/plan", **sizes, device=device, **supposed, **describe_options(**asked)
        )
        return plan

    def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        devices: dict[str, Any] = self._calls.get("/v1/devices")
        return devices

    def health(self) -> Health:
        """Whether the service accepts work, and if not, why; asked once, without repetition.

        Raises:
            ServiceUnreachable: It does not answer at all.
        """
        try:
            Calls(self._transport, Retries(tries=1)).ask(Request("GET", "/healthz/ready"))
        except ServiceBusy as busy:
            return Health(ready=False, missing=busy.problem.get("missing", {"service": str(busy)}))
        return Health(ready=True, missing={})
