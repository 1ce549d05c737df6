"""The client for blocking callers, and its products in one call.

They are computed in leases if possible, else of matrices that are sent and received.
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import check_out, find_shape, read_operands
from .downloads import receive_array
from .errors import NotFound, ServiceBusy, ServiceRefused, ServiceTimeout, ServiceUnreachable
from .jobs import Jobs
from .leases import LeasedMemory
from .npy import check_dtype, make_array_body
from .options import MatmulOptions, PlanQuestion, describe_options
from .records import Details, Health
from .wire.address import parse_address
from .wire.calls import Calls, make_json_body
from .wire.connection import Answer, Body, Request

__version__: Final = "0.2.0"

LOCAL_URL: Final = "http://127.0.0.1:8000"
"""Where `wavetrim serve` listens by default."""

TIMEOUT_SECONDS: Final = 120.0
"""The default of the longest silence of a service within one call; chosen."""

_MOST_SECONDS: Final = (2**31 - 1) / 1e3
"""The longest timeout that a socket takes: 25 days."""

_COPIED_BYTES: Final = 2**20
"""Operands of at least this size are copied into a lease; smaller ones are sent. Chosen."""


class Client(Jobs):
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
        ValueError: An argument is not valid. Nothing is sent yet.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] = LOCAL_URL,
        *,
        api_key: str | None = None,
        timeout: float | None = TIMEOUT_SECONDS,
        retries: int = 3,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        if timeout is not None and not timeout > 0:
            limit = "a positive number of seconds, or None"
            raise ValueError(f"timeout is {timeout}; it must be {limit}")
        if retries < 0:
            raise ValueError(f"retries is {retries}; it must be at least 0")
        address = parse_address(url, tls_context)
        headers = {
            "Host": address.authority,
            "Accept-Encoding": "identity",
            "User-Agent": f"wavetrim-client/{__version__}",
        }
        if api_key is not None:
            if not api_key or not api_key.isprintable() or api_key != api_key.strip():
                limit = "at least one, all of them printable, and no space or line end at its ends"
                told = f"api_key has {len(api_key)} characters (not shown)"
                raise ValueError(f"{told}; it must have {limit}")
            headers["Authorization"] = f"Bearer {api_key}"
        seconds = min(timeout or _MOST_SECONDS, _MOST_SECONDS)
        self._calls = Calls(address, headers, seconds, retries)
        self._memory = LeasedMemory(self._calls)

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._calls.address.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and give back the leases without arrays."""
        self._memory.leave()
        self._calls.close()

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = "float32") -> NDArray[Any]:
        """A new array in memory that is shared with a service on the same host.

        `matmul` sends no bytes of such arrays: the service reads its operands and writes its
        result (`out=`) where they lie. The elements are not initialized. The memory is free when
        the array and all views of it are gone: for the next array, or for the service. Over TCP,
        or if the service has no room, the array is an ordinary one.
        """
        array = self._memory.obtain(shape, dtype)
        return np.empty(shape, dtype) if array is None else array

    def matmul(self, a: ArrayLike, b: ArrayLike, **options: Unpack[MatmulOptions]) -> NDArray[Any]:
        """alpha·A·B + beta·C in one call; the service stores nothing.

        Args:
            a: M x K, a stack of such matrices, or a vector of K; anything that NumPy reads as an
                array, of any strides.
            b: K x N, a stack of such matrices, or a vector of K. Stacks are broadcast and element
                types promoted by NumPy's rules.
            **options: See `MatmulOptions`.

        Raises:
            ValueError: The operands cannot be multiplied, or `out` cannot take the product.
        """
        return self.matmul_with_details(a, b, **options)[0]

    def matmul_with_details(
        self, a: ArrayLike, b: ArrayLike, **options: Unpack[MatmulOptions]
    ) -> tuple[NDArray[Any], Details]:
        """What `matmul` returns, and how it was computed: F, seconds, accuracy."""
        c, dtype, out = options.pop("c", None), options.pop("dtype", None), options.pop("out", None)
        query = describe_options(options, MatmulOptions)
        operands, shape = read_operands(a, b, c, beta=query.get("beta", 0.0))
        wanted = operands[0].dtype.newbyteorder("=") if dtype is None else np.dtype(dtype)
        if dtype is not None:
            check_dtype(wanted)
            query["dtype"] = wanted.name
        matrix = None
        if out is not None:
            check_out(out, shape, wanted)
            matrix = out.reshape(find_shape(operands[0].shape, operands[1].shape))
        found = self._multiply_in_leases(operands, wanted, query, matrix)
        product, details = found or self._send_operands(operands, query, matrix)
        product = product.reshape(shape)
        if out is not None and not np.may_share_memory(out, product):
            np.copyto(out, product)
        return product if out is None else out, details

    def plan(self, m: int, n: int, k: int, **options: Unpack[PlanQuestion]) -> dict[str, Any]:
        """How the service would split a product: F, waves, predicted seconds, the curve.

        Args:
            m: Rows of A and of the product.
            n: Columns of B and of the product.
            k: Columns of A, rows of B.
            **options: See `PlanQuestion`.
        """
        asked = describe_options(options, PlanQuestion)
        return self._calls.get("/v1/plan", m=m, n=n, k=k, **asked)

    def devices(self) -> dict[str, Any]:
        """GPUs of the service, and the presets that it can plan for."""
        return self._calls.get("/v1/devices")

    def health(self) -> Health:
        """Whether the service accepts work, and if not, why; asked once, without repetition.

        Raises:
            ServiceUnreachable: It does not answer at all.
        """
        try:
            replace(self._calls, retries=0).ask(Request("GET", "/healthz/ready"))
        except ServiceBusy as busy:
            return Health(ready=False, missing=busy.problem.get("missing", {"service": str(busy)}))
        return Health(ready=True, missing={})

    def _multiply_in_leases(
        self,
        operands: Sequence[NDArray[Any]],
        dtype: np.dtype[Any],
        query: Mapping[str, Any],
        out: NDArray[Any] | None,
    ) -> tuple[NDArray[Any], Details] | None:
        """The product of operands in leases; None if they are better sent, or there is no lease.

        A new result lies in a lease if an operand does; else it is computed in `out`, if that lies
        in a lease apart from the operands.
        """
        memory = self._memory
        if not memory.offered or any(one.ndim > 2 or 0 in one.shape for one in operands):
            return None
        is_there = any(map(memory.find, operands))
        target = out if memory.find(out) else None
        size_bytes = sum(one.nbytes for one in operands)
        if not is_there and target is None and size_bytes < _COPIED_BYTES:
            return None
        if target is None or any(np.may_share_memory(target, one) for one in operands):
            target = memory.obtain((operands[0].shape[0], operands[1].shape[1]), dtype)
        placed = [*map(memory.place, operands), target]
        named = [*map(memory.find, placed)]
        details = None if None in named else self._multiply_there(named, query)
        if details is None or target is None:
            return None
        return target if is_there or out is not None else target.copy(), details

    def _multiply_there(self, named: Sequence[Any], query: Mapping[str, Any]) -> Details | None:
        """Compute a product where its matrices lie; None if they must be sent after all."""
        names = ("a", "b", "out") if len(named) == 3 else ("a", "b", "c", "out")
        asked = {name: value for name, value in query.items() if name != "dtype"}
        body = make_json_body({**dict(zip(names, named, strict=True)), **asked})

        def read(answer: Answer) -> Details:
            answer.receive()
            return Details.read(answer.headers)

        try:
            return self._calls.receive(Request("POST", "/v1/matmul", body=body), read)
        except NotFound:
            self._memory.leave()  # the service was restarted, and its leases are gone
            return None
        except ServiceRefused:
            raise
        except BaseException as error:
            self._memory.leave()  # the product may still be written
            if isinstance(error, ServiceUnreachable) and not isinstance(error, ServiceTimeout):
                return None
            raise

    def _send_operands(
        self, operands: list[NDArray[Any]], query: dict[str, Any], out: NDArray[Any] | None
    ) -> tuple[NDArray[Any], Details]:
        """The product of operands that are sent; received into `out` if that can be.

        It must share no memory with an operand, which may be sent again after a lost connection.
        """
        if out is not None and (
            not out.dtype.isnative or any(np.may_share_memory(out, one) for one in operands)
        ):
            out = None
        bodies = [make_array_body(matrix) for matrix in operands]
        body = Body(
            sum(body.size_bytes for body in bodies),
            lambda: chain.from_iterable(body.read_pieces() for body in bodies),
        )
        request = Request("POST", "/v1/matmul", query, body=body, repeatable=True)
        return self._calls.receive(
            request, lambda answer: (receive_array(answer, out), Details.read(answer.headers))
        )
