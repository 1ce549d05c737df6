"""Products in one call: in leases if possible, else with matrices that are sent and received."""

from itertools import chain
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .arrays import check_out, find_shape, read_operands
from .downloads import receive_array
from .leases.leased_memory import LeasedMemory
from .leases.leased_products import multiply_in_leases
from .npy import check_dtype, make_array_body
from .options import MatmulOptions, describe_options
from .records import Details
from .wire.calls import Calls
from .wire.connection import Answer, Body, Request


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
            **options: See `MatmulOptions`: c, dtype, out, alpha, beta, f, kernel, tile, accuracy,
                sms, devices, verify.

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
            reshaped = out.reshape(find_shape(operands[0].shape, operands[1].shape))
            matrix = reshaped if np.may_share_memory(reshaped, out) else None
        found = multiply_in_leases(
            self._calls, self._memory, matrices=operands, dtype=wanted, out=matrix, query=query
        )
        if found is None:
            found = self._send_operands(operands, query, matrix)
        product, details = found[0].reshape(shape), found[1]
        if out is not None and not np.may_share_memory(out, product):
            np.copyto(out, product)
        return product if out is None else out, details

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
        headers = {"Accept-Encoding": "identity"}
        request = Request("POST", "/v1/matmul", query, headers, body, repeatable=True)

        def read(answer: Answer) -> tuple[NDArray[Any], Details]:
            return receive_array(answer, out), Details.read(answer.headers)

        return self._calls.receive(request, read)
