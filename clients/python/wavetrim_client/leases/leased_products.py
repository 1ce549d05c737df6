"""Products whose matrices lie in leases or are copied there, so that no matrix is sent."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import NotFound, ServiceRefused, ServiceTimeout, ServiceUnreachable
from ..records import Details
from ..wire.calls import Calls, make_json_body
from ..wire.connection import Answer, Request
from .leased_memory import LeasedMemory

COPIED_BYTES: Final = 2**20
"""Operands of at least this size are copied into a lease; smaller ones are sent. Chosen."""

Matrix = NDArray[Any]


def multiply_in_leases(
    calls: Calls,
    memory: LeasedMemory,
    *,
    matrices: Sequence[Matrix],
    dtype: np.dtype[Any],
    out: Matrix | None,
    query: Mapping[str, Any],
) -> tuple[Matrix, Details] | None:
    """A product in leases; None if its matrices are better sent, or there is no lease.

    Args:
        calls: The calls to the service.
        memory: The leases.
        matrices: A, B and, if beta is not 0, C.
        dtype: Element type of the result.
        out: M x N, for the result; computed in place if it is in a lease, apart from operands.
        query: The options of the product.

    Returns:
        The result. It is `out` if that is given; else a new array, which lies in a lease if an
        operand does.
    """
    if not memory.offered or any(matrix.ndim > 2 or 0 in matrix.shape for matrix in matrices):
        return None
    operand_is_there = any(memory.find(matrix) is not None for matrix in matrices)
    goes_there = out is not None and memory.find(out) is not None
    size_bytes = sum(matrix.nbytes for matrix in matrices)
    if not operand_is_there and not goes_there and size_bytes < COPIED_BYTES:
        return None
    placed = [_place(memory, matrix) for matrix in matrices]
    shape = (matrices[0].shape[0], matrices[1].shape[1])
    target = out
    if not goes_there or any(np.may_share_memory(target, one) for one in matrices):
        target = memory.obtain(shape, dtype)
    named = [None if one is None else memory.find(one) for one in (*placed, target)]
    details = None if None in named else _ask(calls, memory, named, query)
    if details is None or target is None:
        return None
    if out is None and not operand_is_there:
        out = np.empty(shape, dtype)
    if out is None or target is out:
        return target, details
    np.copyto(out, target)
    return out, details


def _place(memory: LeasedMemory, matrix: Matrix) -> Matrix | None:
    """A matrix in a lease: itself, or its copy."""
    if memory.find(matrix) is not None:
        return matrix
    copy = memory.obtain(matrix.shape, matrix.dtype.newbyteorder("="))
    if copy is not None:
        np.copyto(copy, matrix)
    return copy


def _ask(
    calls: Calls, memory: LeasedMemory, named: Sequence[Any], query: Mapping[str, Any]
) -> Details | None:
    """Compute a product where its matrices lie; None if they must be sent after all."""
    names = ("a", "b", "out") if len(named) == 3 else ("a", "b", "c", "out")
    asked = {name: value for name, value in query.items() if name != "dtype"}
    body = make_json_body({**dict(zip(names, named, strict=True)), **asked})
    request = Request("POST", "/v1/matmul", body=body)

    def read(answer: Answer) -> Details:
        answer.receive()
        return Details.read(answer.headers)

    try:
        return calls.receive(request, read)
    except NotFound:
        memory.leave()  # the service was restarted, and its leases are gone
        return None
    except ServiceRefused:
        raise
    except BaseException as error:
        memory.leave()  # the product may still be written
        if isinstance(error, ServiceUnreachable) and not isinstance(error, ServiceTimeout):
            return None
        raise
