"""A request for products, read from its head and checked: the tensors, and where they lie."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Final

from wavetrim.service.api.fields import check_fields, read_json
from wavetrim.service.api.v2.datatypes import (
    DATATYPES,
    MOST_JSON_ELEMENTS,
    Array,
    read_elements,
)
from wavetrim.service.api.v2.schemas import InferHead, InferParameters, InputTensor
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.operands import check_operands
from wavetrim.service.storage.matrices.matrix import count_data_bytes, make_shape

_KEPT_BYTES: Final = 2**12
"""Longest head whose request is cached, as most requests repeat an earlier head; chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """An input, or the result: its shape, and its elements if the head has them.

    Attributes:
        name: A, B or C.
        rows: Rows of each matrix.
        columns: Columns of each matrix.
        dtype: NumPy's name of the element type.
        stack: How many matrices a stack has; None for a single matrix.
        values: Its elements; None if they come as binary data after the head.
    """

    name: str
    rows: int
    columns: int
    dtype: str
    stack: int | None = None
    values: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns; in front of them the number of matrices of a stack."""
        return make_shape(self.rows, self.columns, self.stack)

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return count_data_bytes(self.rows, self.columns, self.dtype, self.stack)


@dataclass(frozen=True, slots=True, eq=False)
class InferRequest:
    """A request for a product, or for those of a stack of matrices.

    Attributes:
        id: The caller's name for it; empty for none.
        inputs: In the order of the head, which is that of the binary data.
        result: The result's shape and element type.
        parameters: How it is computed.
        binary: Whether the result is sent as binary data, and not as JSON.
    """

    id: str
    inputs: tuple[Tensor, ...]
    result: Tensor
    parameters: InferParameters
    binary: bool

    @property
    def following_bytes(self) -> int:
        """Bytes of binary data after the head."""
        return sum(tensor.size_bytes for tensor in self.inputs if tensor.values is None)


def read_request(content: bytes) -> InferRequest:
    """The request of a JSON head.

    Raises:
        RequestValidationError: It is not JSON, or breaks the schema.
        FieldProblem: As `read_json`; a tensor does not have the announced size, or tensors do not
            fit together.
    """
    return _read_kept(content) if len(content) <= _KEPT_BYTES else _read(content)


def _read(content: bytes) -> InferRequest:
    head = check_fields(InferHead.model_validate, read_json(content), "body")
    inputs = tuple(_read_input(f"inputs[{i}]", one) for i, one in enumerate(head.inputs))
    result = _fit(inputs, alpha=head.parameters.alpha, beta=head.parameters.beta)
    return InferRequest(
        id=head.id,
        inputs=inputs,
        result=result,
        parameters=head.parameters,
        binary=_asks_for_bytes(head, prod(result.shape)),
    )


def _fit(tensors: Sequence[Tensor], *, alpha: float, beta: float) -> Tensor:
    """Check that tensors fit together; returns the result that they have.

    Raises:
        FieldProblem: An input is missing or given twice, the element types are not the same, or
            alpha or beta is not whole for integers, or infinite in the element type.
        ShapesDiffer: Sizes do not fit.
    """
    names = [tensor.name for tensor in tensors]
    if sorted(set(names)) != sorted(names) or not {"A", "B"} <= set(names):
        raise FieldProblem("inputs", names, "A and B, and C where beta is not 0, each once")
    found = dict(zip(names, tensors, strict=True))
    c = found.get("C") if beta != 0 else None
    problem, stack = check_operands(found["A"], found["B"], c, alpha=alpha, beta=beta)
    return Tensor("C", problem.m, problem.n, problem.dtype, stack)


_read_kept = lru_cache(maxsize=256)(_read)


def _read_input(field: str, head: InputTensor) -> Tensor:
    dtype, shape = DATATYPES[head.datatype], tuple(head.shape)
    *stack, rows, columns = shape
    tensor = Tensor(head.name, rows, columns, dtype, stack=next(iter(stack), None))
    found = f"{tensor.size_bytes}, the bytes of {shape} {head.datatype}"
    is_announced = "binary_data_size" in head.parameters.model_fields_set
    announced = head.parameters.binary_data_size if is_announced else None
    if (announced is None) == (head.data is None):
        given = "neither" if announced is None else "both"
        raise FieldProblem(field, given, "one of data and parameters.binary_data_size")
    if announced is not None and announced != tensor.size_bytes:
        raise FieldProblem(f"{field}.parameters.binary_data_size", announced, found)
    if head.data is None:
        return tensor
    values = read_elements(f"{field}.data", head.data, shape, dtype)
    values.flags.writeable = False
    return replace(tensor, values=values)


def _asks_for_bytes(head: InferHead, elements: int) -> bool:
    """Whether the result is sent as binary data, and not as JSON."""
    binary = head.parameters.binary_data_output
    if head.outputs and "binary_data" in head.outputs[0].parameters.model_fields_set:
        binary = head.outputs[0].parameters.binary_data
    if not binary and elements > MOST_JSON_ELEMENTS:
        limit = f"at most {MOST_JSON_ELEMENTS} as JSON; ask for it as binary data (binary_data)"
        raise FieldProblem("elements of the result", elements, limit)
    return binary
