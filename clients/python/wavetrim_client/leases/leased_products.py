"""Products whose matrices lie in leases or are copied there, so that no matrix is sent."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..details import Details, read_details
from ..errors import NotFound, ServiceRefused
from ..matrices.bodies import make_json_body
from ..wire.answer import Answer
from ..wire.calls import Calls
from ..wire.request import Request
from .leased_memory import LeasedMemory

COPIED_BYTES: Final = 2**20
"""Operands of at least this size are copied into a lease; smaller ones are sent. Chosen."""

Matrix = NDArray[Any]


class LeasedProducts:
    """Computes products in leases.

    Args:
        calls: The calls to the service.
        memory: The leases.
    """

    def __init__(self, calls: Calls, memory: LeasedMemory) -> None:
        self._calls = calls
        self._memory = memory

    def multiply(
        self,
        matrices: Sequence[Matrix],
        dtype: np.dtype[Any],
        out: Matrix | None,
        query: Mapping[str, Any],
    ) -> tuple[Matrix, Details] | None:
        """A product in leases; None if its matrices are better sent, or there is no lease.

        Args:
            matrices: A, B and, if beta is not 0, C.
            dtype: Element type of the result.
            out: M x N, for the result; computed in place if it is in a lease, apart from operands.
            query: The options of the product.

        Returns:
            The result. It is `out` if that is given; else a new array, which lies in a lease if an
            operand does.
        """
        memory = self._memory
        in_lease = [memory.find(matrix) is not None for matrix in matrices]
        goes_there = out is not None and memory.find(out) is not None
        if not self._is_worth_it(matrices, any(in_lease) or goes_there):
            return None
        placed = [self._place(matrix) for matrix in matrices]
        shape = (matrices[0].shape[0], matrices[1].shape[1])
        target = out
        if not goes_there or any(np.may_share_memory(target, one) for one in matrices):
            target = memory.obtain(shape, dtype)
        named = [None if one is None else memory.find(one) for one in (*placed, target)]
        details = None if None in named else self._ask(named, query)
        if details is None or target is None:
            return None
        if out is None and not any(in_lease):
            out = np.empty(shape, dtype)
        if out is None or target is out:
            return target, details
        np.copyto(out, target)
        return out, details

    def _is_worth_it(self, matrices: Sequence[Matrix], some_are_there: bool) -> bool:
        """Whether to name the matrices instead of sending them."""
        if not self._memory.offered or any(0 in matrix.shape for matrix in matrices):
            return False
        return some_are_there or sum(matrix.nbytes for matrix in matrices) >= COPIED_BYTES

    def _ask(self, named: Sequence[Any], query: Mapping[str, Any]) -> Details | None:
        names = ("a", "b", "out") if len(named) == 3 else ("a", "b", "c", "out")
        asked = {name: value for name, value in query.items() if name != "dtype"}
        document = {**dict(zip(names, named, strict=True)), **asked}
        headers = {"Content-Type": "application/json"}
        body = make_json_body(document)
        request = Request(
            "POST",
            "/v1/matmul",
            headers=headers,
            body=body,
            repeatable=True,
            before_repeat=self._memory.leave,  # the lost product may still be written
        )
        try:
            return self._calls.receive(request, _read)
        except NotFound:
            self._memory.leave()  # the service was restarted, and its leases are gone
            return None
        except ServiceRefused:
            raise
        except BaseException:
            self._memory.leave()  # the product may still be written
            raise

    def _place(self, matrix: Matrix) -> Matrix | None:
        """A matrix in a lease: itself, or its copy."""
        if self._memory.find(matrix) is not None:
            return matrix
        copy = self._memory.obtain(matrix.shape, matrix.dtype.newbyteorder("="))
        if copy is not None:
            np.copyto(copy, matrix)
        return copy


def _read(answer: Answer) -> Details:
    answer.read()
    return read_details(answer.headers)
