"""A request for products, read from its head and checked: the tensors, and where they lie."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

from pydantic import ValidationError

from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.api.admission.body_route import refuse
from wavetrim.service.api.json_document import read_json
from wavetrim.service.api.v2.datatypes import (
    DATATYPES,
    MOST_JSON_ELEMENTS,
    NAMES,
    Array,
    read_elements,
)
from wavetrim.service.api.v2.schemas import InferHead, RegionPlace
from wavetrim.service.api.v2.schemas import InputTensor as InputHead
from wavetrim.service.api.v2.stack import Stack, fit_stack
from wavetrim.service.errors import FieldProblem

_KEPT_BYTES: Final = 2**12
"""Longest head whose request is cached, as most requests repeat an earlier head; chosen."""


@dataclass(frozen=True, slots=True)
class RegionPart:
    """Bytes of a registered region.

    Attributes:
        region: Name of the region.
        offset_bytes: Where the bytes begin in it.
        size_bytes: How many there are.
    """

    region: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class InputTensor:
    """An input: its shape, and where its elements are.

    Attributes:
        name: A, B or C.
        dtype: NumPy's name of the element type.
        shape: Rows and columns; in front of them the number of matrices of a stack.
        values: Its elements, if the head has them.
        part: Where they lie in a region. With neither, they come after the head.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: Array | None = None
    part: RegionPart | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]

    @property
    def follows(self) -> bool:
        """Whether its elements come as binary data after the head."""
        return self.values is None and self.part is None


@dataclass(frozen=True, slots=True, eq=False)
class InferRequest:
    """A request for the products of a stack.

    Attributes:
        id: The caller's name for it; empty for none.
        inputs: In the order of the head, which is that of the binary data.
        sizes_bytes: Bytes of each input.
        parts: Bytes of regions that inputs lie in, or that the result is written to.
        stack: The products.
        alpha: Factor of the products.
        beta: Factor of C.
        options: The options for the planner.
        verify: Whether each product is checked.
        binary: Whether the result is sent as binary data, and not as JSON.
        part: The region that the result is written to; None if it is sent.
    """

    id: str
    inputs: tuple[InputTensor, ...]
    sizes_bytes: tuple[int, ...]
    parts: tuple[RegionPart, ...]
    stack: Stack
    alpha: float
    beta: float
    options: PlanOptions
    verify: bool
    binary: bool
    part: RegionPart | None

    @property
    def following_bytes(self) -> int:
        """Bytes of binary data after the head."""
        return sum(tensor.size_bytes for tensor in self.inputs if tensor.follows)


def read_request(content: bytes) -> InferRequest:
    """The request of a JSON head.

    Raises:
        RequestValidationError: It is not JSON, or breaks the schema.
        FieldProblem: As `read_json`; a tensor does not have the announced size, or tensors do not
            fit together.
    """
    return _read_kept(content) if len(content) <= _KEPT_BYTES else _read(content)


def _read(content: bytes) -> InferRequest:
    try:
        head = InferHead.model_validate(read_json(content))
    except ValidationError as error:
        raise refuse(error, "body") from error
    inputs = tuple(_read_input(f"inputs[{i}]", one) for i, one in enumerate(head.inputs))
    asked = head.parameters
    stack = fit_stack(inputs, alpha=asked.alpha, beta=asked.beta, f=asked.f)
    binary, part = _read_output(head, stack)
    named = (*(tensor.part for tensor in inputs), part)
    return InferRequest(
        id=head.id,
        inputs=inputs,
        sizes_bytes=tuple(tensor.size_bytes for tensor in inputs),
        parts=tuple(one for one in named if one is not None),
        stack=stack,
        alpha=asked.alpha,
        beta=asked.beta,
        options=asked.options,
        verify=asked.verify,
        binary=binary,
        part=part,
    )


_read_kept = lru_cache(maxsize=256)(_read)


def _read_input(field: str, head: InputHead) -> InputTensor:
    dtype, shape = DATATYPES[head.datatype], tuple(head.shape)
    size_bytes = prod(shape) * ITEM_BYTES[dtype]
    found = f"{size_bytes}, the bytes of {shape} {NAMES[dtype]}"
    is_announced = "binary_data_size" in head.parameters.model_fields_set
    announced = head.parameters.binary_data_size if is_announced else None
    part = _read_place(field, head.parameters, f"exactly {found}")
    ways = [announced is not None, part is not None, head.data is not None]
    if sum(ways) != 1:
        limit = "one of data, parameters.binary_data_size and parameters.shared_memory_region"
        raise FieldProblem(field, f"{sum(ways)} of them", limit)
    if announced is not None and announced != size_bytes:
        raise FieldProblem(f"{field}.parameters.binary_data_size", announced, found)
    if part is not None and part.size_bytes != size_bytes:
        name = f"{field}.parameters.shared_memory_byte_size"
        raise FieldProblem(name, part.size_bytes, found)
    values = None
    if head.data is not None:
        values = read_elements(f"{field}.data", head.data, shape, dtype)
        values.flags.writeable = False
    return InputTensor(head.name, dtype, shape, values, part)


def _read_output(head: InferHead, stack: Stack) -> tuple[bool, RegionPart | None]:
    """Whether the result is sent as binary data, or else the region that it is written to."""
    if not head.outputs:
        binary, part = head.parameters.binary_data_output, None
    else:
        asked = head.outputs[0].parameters
        says = "binary_data" in asked.model_fields_set
        binary = asked.binary_data if says else head.parameters.binary_data_output
        least = f"at least {stack.result_bytes}, the bytes of the result"
        part = _read_place("outputs[0]", asked, least)
        if part is not None and part.size_bytes < stack.result_bytes:
            name = "outputs[0].parameters.shared_memory_byte_size"
            raise FieldProblem(name, part.size_bytes, least)
    elements = prod(stack.shape)
    if not binary and part is None and elements > MOST_JSON_ELEMENTS:
        limit = f"at most {MOST_JSON_ELEMENTS} as JSON; ask for it as binary data (binary_data)"
        raise FieldProblem("elements of the result", elements, limit)
    return binary, part


def _read_place(field: str, place: RegionPlace, size: str) -> RegionPart | None:
    if not place.shared_memory_region:
        if place.shared_memory_byte_size or place.shared_memory_offset:
            limit = "named, where an offset or a size in it is"
            raise FieldProblem(f"{field}.parameters.shared_memory_region", None, limit)
        return None
    if not place.shared_memory_byte_size:
        raise FieldProblem(f"{field}.parameters.shared_memory_byte_size", None, size)
    return RegionPart(
        place.shared_memory_region, place.shared_memory_offset, place.shared_memory_byte_size
    )
