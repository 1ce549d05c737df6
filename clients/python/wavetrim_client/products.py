"""Products in one call: in leases if possible, else with matrices that are sent and received."""

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .details import Details, read_details
from .leases.leased_products import LeasedProducts
from .matrices.bodies import join_bodies, make_array_body
from .matrices.downloads import ArrayPlace, Download
from .matrices.element_types import check_dtype
from .matrices.npy import MEDIA_TYPE
from .matrices.operands import Operands, check_out, read_operands
from .opening import Opened
from .options import ProductOptions, check_names, describe_options
from .wire.answer import Answer
from .wire.request import Request


class Products(Opened):
    """The calls that multiply at once."""

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

    def matmul(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        c: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
        **options: Unpack[ProductOptions],
    ) -> NDArray[Any]:
        """alpha·A·B + beta·C in one call; the service stores nothing.

        Args:
            a: M x K, or a vector of K; anything that NumPy reads as an array, of any strides.
            b: K x N, or a vector of K. Element types are promoted by NumPy's rules.
            c: An array of the product's shape; required if `beta` is not 0, else not read.
            dtype: Element type of the product; None for the operands'.
            out: An array of the product's shape and element type, which is filled and returned.
                If its elements are contiguous, the product is received into it without a copy.
            **options: See `ProductOptions`: alpha, beta, f, kernel, tile, accuracy, sms,
                devices, verify.

        Raises:
            ValueError: The operands cannot be multiplied, or `out` cannot take the product.
        """
        return self.matmul_with_details(a, b, c=c, dtype=dtype, out=out, **options)[0]

    def matmul_with_details(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        c: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
        **options: Unpack[ProductOptions],
    ) -> tuple[NDArray[Any], Details]:
        """What `matmul` returns, and how it was computed: F, seconds, accuracy."""
        check_names(options, ProductOptions, "c", "dtype", "out")
        query = describe_options(**options)
        operands = read_operands(a, b, c, beta=query.get("beta", 0.0))
        wanted = operands.dtype if dtype is None else np.dtype(dtype)
        if dtype is not None:
            check_dtype(wanted)
            query["dtype"] = wanted.name
        if out is not None:
            check_out(out, operands.shape, wanted)
        view = None if out is None else _view_matrix(operands, out)
        leased = LeasedProducts(self._calls, self._memory)
        found = leased.multiply(operands.matrices, wanted, view, query)
        if found is None:
            found = self._send_operands(operands, query, _find_target(operands, out))
        product, details = found[0].reshape(operands.shape), found[1]
        if out is not None and not np.may_share_memory(out, product):
            np.copyto(out, product)
        return product if out is None else out, details

    def _send_operands(
        self, operands: Operands, query: dict[str, Any], target: NDArray[Any] | None
    ) -> tuple[NDArray[Any], Details]:
        """The product of operands that are sent; received into `target` if that is given."""
        body = join_bodies([make_array_body(matrix) for matrix in operands.matrices])
        headers = {"Content-Type": MEDIA_TYPE, "Accept-Encoding": "identity"}
        request = Request("POST", "/v1/matmul", query, headers, body, repeatable=True)
        place = ArrayPlace(target)

        def read(answer: Answer) -> Details:
            download = Download(place)
            download.receive(answer)
            download.finish()
            return read_details(answer.headers)

        details = self._calls.receive(request, read)
        return place.array, details


def _view_matrix(operands: Operands, out: NDArray[Any]) -> NDArray[Any] | None:
    """A view of `out` that is a matrix; None if `out` has no such view."""
    shape = (operands.matrices[0].shape[0], operands.matrices[1].shape[1])
    matrix = out.reshape(shape)
    return matrix if np.may_share_memory(matrix, out) else None


def _find_target(operands: Operands, out: NDArray[Any] | None) -> NDArray[Any] | None:
    """`out` as a matrix if the product can be received into it, else None.

    It must share no memory with an operand, which may be sent again after a lost connection.
    """
    if out is None or not out.dtype.isnative:
        return None
    if not (out.flags.c_contiguous or out.flags.f_contiguous):
        return None
    if any(np.may_share_memory(out, matrix) for matrix in operands.matrices):
        return None
    return out.reshape(operands.matrices[0].shape[0], operands.matrices[1].shape[1])
