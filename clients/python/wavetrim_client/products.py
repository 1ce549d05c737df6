"""Products in one call: in leases if possible, else with matrices that are sent and received."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import check_out, find_shape, read_operands
from .downloads import receive_array
from .errors import NotFound, ServiceRefused, ServiceTimeout, ServiceUnreachable
from .leases import LeasedMemory
from .npy import check_dtype, make_array_body
from .options import MatmulOptions, describe_options
from .records import Details
from .wire.calls import Calls, make_json_body
from .wire.connection import Answer, Body, Request

_COPIED_BYTES: Final = 2**20
"""Operands of at least this size are copied into a lease; smaller ones are sent. Chosen."""


class Products:
    """The calls that multiply at once."""

    _calls: Calls
    _memory: LeasedMemory

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = "float32") -> NDArray[Any]:
        """A new array in memory that is shared with a service on the same host.

        `matmul` sends no bytes of such arrays: the service reads its operands and writes its
        result (`out=`) where they lie. The elements are not initialized. The service takes the
        memory back when the array and all views of it are gone. Over TCP, or if the service has no
        room, the array is an ordinary one.

        Args:
            shape: Elements along each axis.
            dtype: Element type.
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

        def read(answer: Answer) -> tuple[NDArray[Any], Details]:
            return receive_array(answer, out), Details.read(answer.headers)

        return self._calls.receive(request, read)
