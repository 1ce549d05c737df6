"""All calls to a service, written once: `Client` runs the coroutines, `AsyncClient` awaits them."""

from typing import Any, Unpack

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .errors import ServiceBusy
from .jobs import Jobs
from .leases.leased_memory import LeasedMemory
from .matrices.stored import StoredMatrices
from .options import PlanOptions, PlanQuestion, check_names, describe_options, read_scalar
from .products import Products
from .records import Health
from .wire.calls import Calls
from .wire.request import Request
from .wire.retries import Retries
from .wire.transport import Transport


class Session:
    """The calls to one service.

    Args:
        transport: Sends its requests.
        retries: Which requests are repeated, and when.
        timeout_seconds: How long the service may be silent; None for no limit.

    Attributes:
        transport: As given.
        products: Products in one call.
        matrices: Its stored matrices.
        jobs: Its jobs.
    """

    def __init__(
        self, transport: Transport, retries: Retries, *, timeout_seconds: float | None = None
    ) -> None:
        self.transport = transport
        self._calls = Calls(transport, retries)
        self._memory = LeasedMemory(self._calls, transport.network)
        self.products = Products(self._calls, self._memory)
        self.matrices = StoredMatrices(self._calls)
        self.jobs = Jobs(self._calls, self.matrices, timeout_seconds=timeout_seconds)
        self._health_calls = Calls(transport, Retries(tries=1))

    async def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A new array, in a lease if possible."""
        array = await self._memory.obtain(shape, dtype)
        return np.empty(shape, dtype) if array is None else array

    def close(self) -> None:
        """Close the connections, and give back the leases without arrays."""
        self._memory.close()
        self.transport.close()

    async def plan(
        self,
        m: int,
        n: int,
        k: int,
        *,
        dtype: DTypeLike,
        memory: str,
        device: str | None,
        **options: Unpack[PlanQuestion],
    ) -> dict[str, Any]:
        """How the service would split a product."""
        check_names(options, PlanQuestion, "dtype", "memory", "device")
        asked: dict[str, Any] = {**options}
        supposed = {
            name: read_scalar(asked.pop(name))
            for name in PlanQuestion.__annotations__
            if name not in PlanOptions.__annotations__ and name in asked
        }
        sizes = {"m": m, "n": n, "k": k, "dtype": np.dtype(dtype).name, "memory": memory}
        plan: dict[str, Any] = await self._calls.get(
            "/v1/plan", **sizes, device=device, **supposed, **describe_options(**asked)
        )
        return plan

    async def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        devices: dict[str, Any] = await self._calls.get("/v1/devices")
        return devices

    async def health(self) -> Health:
        """Whether the service accepts work; asked once, without repetition."""
        try:
            await self._health_calls.ask(Request("GET", "/healthz/ready"))
        except ServiceBusy as busy:
            return Health(ready=False, missing=busy.problem.get("missing", {"service": str(busy)}))
        return Health(ready=True, missing={})
