"""Products in one call: in leases if possible, else with matrices that are sent and received."""

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .details import Details, read_details
from .leases.leased_memory import LeasedMemory
from .leases.leased_products import LeasedProducts
from .matrices.bodies import ArrayBody, JoinedBody
from .matrices.downloads import ArrayPlace, Download
from .matrices.element_types import check_dtype
from .matrices.npy import MEDIA_TYPE
from .matrices.operands import Operands, check_out, read_operands
from .options import ProductOptions, check_names, describe_options
from .wire.answer import Answer
from .wire.calls import Calls
from .wire.request import Request


class Products:
    """The calls for one service's products.

    Args:
        calls: The calls to the service.
        memory: Its leases.
    """

    def __init__(self, calls: Calls, memory: LeasedMemory) -> None:
        self._calls = calls
        self._leased = LeasedProducts(calls, calls.transport.network, memory)

    async def multiply(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        c: ArrayLike | None,
        dtype: DTypeLike | None,
        out: NDArray[Any] | None,
        **options: Unpack[ProductOptions],
    ) -> tuple[NDArray[Any], Details]:
        """alpha·A·B + beta·C, and how it was computed; arguments as of `Client.matmul`."""
        check_names(options, ProductOptions, "c", "dtype", "out")
        query = describe_options(**options)
        operands = read_operands(a, b, c, beta=query.get("beta", 0.0))
        wanted = operands.dtype if dtype is None else np.dtype(dtype)
        if dtype is not None:
            check_dtype(wanted)
            query["dtype"] = wanted.name
        if out is not None:
            check_out(out, operands.shape, wanted)
        found = await self._leased.multiply(
            operands.matrices,
            wanted,
            None if out is None else _view_matrix(operands, out),
            query,
        )
        if found is None:
            found = await self._send(operands, query, _find_target(operands, out))
        product, details = found[0].reshape(operands.shape), found[1]
        if out is not None and not np.may_share_memory(out, product):
            np.copyto(out, product)
        return product if out is None else out, details

    async def _send(
        self, operands: Operands, query: dict[str, Any], target: NDArray[Any] | None
    ) -> tuple[NDArray[Any], Details]:
        """The product of operands that are sent; received into `target` if that is given."""
        body = JoinedBody([ArrayBody(matrix) for matrix in operands.matrices])
        headers = {"Content-Type": MEDIA_TYPE, "Accept-Encoding": "identity"}
        request = Request("POST", "/v1/matmul", query, headers, body, repeatable=True)
        place = ArrayPlace(target)

        async def read(answer: Answer) -> Details:
            download = Download(place, None)
            await download.receive(answer)
            download.finish()
            return read_details(answer.headers)

        details = await self._calls.receive(request, read)
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
