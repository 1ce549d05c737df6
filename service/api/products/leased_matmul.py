"""A product in one call whose matrices lie in leases: no byte of them is sent.

The call's JSON document says where they lie, and the answer's how the product was computed.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.engine.operands import view_memory
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.api.jobs.job_schemas import ProductTimings, VerificationView
from wavetrim.service.api.schemas import DtypeName, Pair, describe_pair
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.errors import ShapesDiffer
from wavetrim.service.jobs.operands import check_operands
from wavetrim.service.option_fields import ProductOptions
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.storage.memory.leases import Lease, Leases

_OVERLAP_WORK: Final = 100_000
"""NumPy's steps for comparing two matrices; chosen. Beyond these they count as overlapping."""


_Size = Annotated[int, Field(ge=0)]


class LeasedMatrix(BaseModel):
    """A matrix in a lease."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    lease: str = Field(description="Id of the lease.", max_length=64)
    offset_bytes: int = Field(
        0, ge=0, description="Where the first element begins: a multiple of an element's size."
    )
    shape: Annotated[tuple[_Size, _Size], describe_pair(minimum=0)] = Field(
        description="Rows and columns.", strict=False
    )
    dtype: DtypeName = Field(description="Element type.")
    strides_bytes: Pair | None = Field(
        None,
        strict=False,
        description="From one row, and from one column, to the next: positive multiples of an "
        "element's size, so that no element covers another. Without it the rows lie one after "
        "the other, without gaps.",
    )


class LeasedProduct(ProductOptions):
    """out ← alpha · A·B + beta · C, all of them in leases."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    a: LeasedMatrix = Field(description="M x K.")
    b: LeasedMatrix = Field(description="K x N.")
    c: LeasedMatrix | None = Field(None, description="M x N; needed when beta is not 0.")
    out: LeasedMatrix = Field(
        description="M x N: where the result is written; it must not overlap an operand. Operands "
        "of another element type are first converted to its type."
    )


class LeasedAnswer(BaseModel):
    """How a product was computed; the result lies in its lease."""

    f: int = Field(description="Rows of C that the CPU was planned to compute.")
    f_actual: int = Field(description="Rows of C that the CPU has computed.")
    accuracy: str | None = Field(description="How exact the sums of the GPU's kernel are.")
    kernel: str | None = Field(description="That kernel; null if none has run.")
    timings: ProductTimings = Field(description="Measured seconds.")
    verification: VerificationView | None = Field(
        description="Outcome of the check, as for a job; null if none was asked for."
    )


def find_matrices(
    product: LeasedProduct, leases: Leases, owner: str | None
) -> tuple[list[Operand], Operand, tuple[Extent, ...]]:
    """Find a product's matrices in their leases, and check that they fit.

    Args:
        product: The product.
        leases: The leases.
        owner: Whose they must be; None for anybody's.

    Returns:
        The operands, the result, and the memory of the leases that they lie in, each once.

    Raises:
        LeaseNotFound: There is no such lease.
        FieldProblem: A matrix does not lie in its lease, they do not fit together, or the result
            overlaps an operand.
    """
    named = {"out": product.out, "a": product.a, "b": product.b}
    if product.c is not None and product.beta != 0:
        named["c"] = product.c
    used = {one.lease: leases.get(one.lease, owner) for one in named.values()}
    found = {name: _find_operand(name, one, used[one.lease]) for name, one in named.items()}
    out, target = found.pop("out")
    for name, (_, elements) in found.items():
        if named[name].lease == product.out.lease and _overlap(target, elements):
            limit = f"apart from {name}, {_show(named[name])}"
            raise FieldProblem("out", _show(product.out), limit)
    operands = [operand for operand, _ in found.values()]
    a, b, *rest = operands
    problem, _ = check_operands(
        a, b, rest[0] if rest else None,
        alpha=product.alpha, beta=product.beta, dtype=product.out.dtype,
    )  # fmt: skip
    if (out.rows, out.columns) != (problem.m, problem.n):
        raise ShapesDiffer("shape of out", product.out.shape, f"{(problem.m, problem.n)}")
    return operands, out, tuple(lease.extent for lease in used.values())


def _find_operand(name: str, matrix: LeasedMatrix, lease: Lease) -> tuple[Operand, NDArray[Any]]:
    """A matrix as the engine finds it, and as an array of this process."""
    operand = Operand(
        lease.extent.slab, matrix.offset_bytes, *matrix.shape, matrix.dtype,
        strides_bytes=matrix.strides_bytes,
    )  # fmt: skip
    try:
        return operand, view_memory(operand, lease.extent.view)
    except FieldError as error:
        raise FieldProblem(f"{name}.{error.field}", error.value, error.limit) from error


def _overlap(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two matrices share a byte, or may do so and it would take long to find out."""
    try:
        return np.shares_memory(one, other, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _show(matrix: LeasedMatrix) -> str:
    return f"{matrix.shape} at byte {matrix.offset_bytes}"


def describe_leased(message: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a product whose result lies in its lease."""
    plan, timings = message["plan"], dict(message["timings"])
    f_actual = timings.pop("f_actual")
    return {
        "f": plan["f"],
        "f_actual": f_actual,
        "accuracy": plan["accuracy"],
        "kernel": plan["kernel"],
        "timings": {**timings, "queue_seconds": message["queue_seconds"]},
        "verification": message["verification"],
    }
