"""A request for products, read from its head and checked: the tensors, and where they lie."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.native.element_types import find_dtype, find_limits, is_integer
from wavetrim.service.api.fields import check_fields, read_json
from wavetrim.service.api.v2.schemas import (
    DATATYPES,
    NAMES,
    InferHead,
    InferParameters,
    InputTensor,
)
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.operands import check_operands
from wavetrim.service.storage.matrices.npy import Layout

Array = NDArray[Any]

MOST_JSON_ELEMENTS: Final = 2**18
"""The most elements of a result that is written as JSON; chosen: that takes 60 ms (AMD EPYC)."""

_KEPT_BYTES: Final = 2**12
"""Longest head whose request is cached, as most requests repeat an earlier head; chosen."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tensor(Layout):
    """An input, or the result: its shape, and its elements if the head has them.

    Attributes:
        name: A, B or C.
        values: Its elements; None if they come as binary data after the head.
    """

    name: str
    values: Array | None = None


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
        return sum(tensor.data_bytes for tensor in self.inputs if tensor.values is None)


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
    return Tensor(problem.m, problem.n, problem.dtype, stack=stack, name="C")


_read_kept = lru_cache(maxsize=256)(_read)


def _read_input(field: str, head: InputTensor) -> Tensor:
    dtype, shape = DATATYPES[head.datatype], tuple(head.shape)
    *stack, rows, columns = shape
    tensor = Tensor(rows, columns, dtype, stack=next(iter(stack), None), name=head.name)
    found = f"{tensor.data_bytes}, the bytes of {shape} {head.datatype}"
    is_announced = "binary_data_size" in head.parameters.model_fields_set
    announced = head.parameters.binary_data_size if is_announced else None
    if (announced is None) == (head.data is None):
        given = "neither" if announced is None else "both"
        raise FieldProblem(field, given, "one of data and parameters.binary_data_size")
    if announced is not None and announced != tensor.data_bytes:
        raise FieldProblem(f"{field}.parameters.binary_data_size", announced, found)
    if head.data is None:
        return tensor
    values = _read_elements(f"{field}.data", head.data, shape, dtype)
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


def _read_elements(field: str, data: object, shape: tuple[int, ...], dtype: str) -> Array:
    """Elements of a tensor from JSON numbers, nested like its shape or flat in row-major order.

    Raises:
        FieldProblem: Their number is wrong, or one is no number or not within the element type.
    """
    kind = find_dtype(dtype)
    integral = is_integer(kind)
    try:
        found = _gather(data, integral=integral)
    except ValueError as error:  # lists of different lengths
        raise FieldProblem(field, "lists of different lengths", f"{shape} numbers") from error
    if found is None:
        odd = _find_odd(data, integral=integral)
        raise FieldProblem(field, odd, f"{NAMES[dtype]} numbers")
    if found.size != prod(shape) or found.shape not in (shape, (found.size,)):
        raise FieldProblem(field, f"shape {found.shape}", f"{shape}, or flat")
    if integral:
        limits = np.iinfo(dtype)
        least, most = found.min(initial=0), found.max(initial=0)
        if least < limits.min or most > limits.max:
            odd = least if least < limits.min else most
            raise FieldProblem(
                field, int(odd), f"within {limits.min}…{limits.max} ({NAMES[dtype]})"
            )
        return found.astype(dtype).reshape(shape)
    with np.errstate(over="ignore"):
        elements = found.astype(kind)
    lost = np.isinf(elements) & np.isfinite(found)
    if lost.any():
        largest = float(find_limits(kind).max)
        raise FieldProblem(
            field, float(found[lost][0]), f"at most {largest} in size ({NAMES[dtype]})"
        )
    return elements.reshape(shape)


def _gather(data: object, *, integral: bool) -> Array | None:
    """Nested lists of numbers as an array; None if one is no number, or not a whole one.

    Whole numbers that no type of NumPy's holds together stay objects of Python.
    """
    if not isinstance(data, list):
        return None
    found = np.array(data)
    is_plain = found.dtype.kind in ("iu" if integral else "iuf")
    if is_plain and not (found == found.astype(bool)).any():
        return found  # no 0 and no 1, which NumPy makes of truth values
    # NumPy makes floats of whole numbers if only some are above 2**63, and objects of larger ones.
    exact = np.array(data, object)
    if not set(map(type, exact.flat)) <= ({int} if integral else {int, float}):
        return None
    if is_plain or integral:
        return found if is_plain else exact
    try:
        return exact.astype(float)
    except OverflowError:
        return None


def _find_odd(data: object, *, integral: bool) -> object:
    """The first leaf of nested lists that is no number of the kind, or else the largest."""
    leaves = list(_list_leaves(data))
    wanted = (int,) if integral else (int, float)
    odd = [one for one in leaves if type(one) not in wanted]
    return odd[0] if odd else max(leaves, key=abs, default=data)


def _list_leaves(data: object) -> Iterator[Any]:
    for one in data if isinstance(data, list) else [data]:
        if isinstance(one, list):
            yield from _list_leaves(one)
        else:
            yield one
