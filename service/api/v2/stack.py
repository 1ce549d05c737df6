"""Stacks of matrices: which products a request asks for, and a check that its tensors fit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from wavetrim.scheduler.options import RowsOrAuto
from wavetrim.scheduler.problem import ITEM_BYTES, GemmProblem
from wavetrim.service.errors import FieldProblem
from wavetrim.service.jobs.errors import ShapesDiffer
from wavetrim.service.jobs.operands import check_operands

MOST_PRODUCTS: Final = 2**14
"""The most products of one request; chosen: this many small ones take some seconds."""


class Tensor(Protocol):
    """Anything with a tensor's name, element type and shape."""

    @property
    def name(self) -> str:
        """A, B or C."""

    @property
    def dtype(self) -> str:
        """NumPy's name of the element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns; in front of them the number of matrices of a stack."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix of a tensor.

    Attributes:
        rows: First size.
        columns: Second size.
        dtype: NumPy's name of the element type.
        step_bytes: Distance to the next product's matrix; 0 if all products share this one.
    """

    rows: int
    columns: int
    dtype: str
    step_bytes: int


@dataclass(frozen=True, slots=True)
class Stack:
    """The products of a request.

    Attributes:
        products: How many.
        problem: The sizes and the element type of each.
        shape: The result's shape.
        a: M x K.
        b: K x N.
        c: M x N; None if beta is 0.
    """

    products: int
    problem: GemmProblem
    shape: tuple[int, ...]
    a: Matrix
    b: Matrix
    c: Matrix | None

    @property
    def out_bytes(self) -> int:
        """Bytes of one product's result."""
        return self.problem.m * self.problem.c_row_bytes

    @property
    def result_bytes(self) -> int:
        """Bytes of all products' results, one after the other."""
        return self.products * self.out_bytes


def fit_stack(tensors: Sequence[Tensor], *, alpha: float, beta: float, f: RowsOrAuto) -> Stack:
    """Check that tensors fit together, and find their products.

    All products share a tensor that is not stacked. A stack with a shared B becomes one product
    of a taller A, unless F is set.

    Raises:
        FieldProblem: An input is missing or given twice, or there are too many products.
        ShapesDiffer: Sizes do not fit.
        DtypesDiffer: The element types are not the same.
        FactorRefused: Alpha or beta is not whole for integers, or infinite in the element type.
    """
    names = [tensor.name for tensor in tensors]
    if sorted(set(names)) != sorted(names) or not {"A", "B"} <= set(names):
        raise FieldProblem("inputs", names, "A and B, and C where beta is not 0, each once")
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    products = _count_products(shapes)
    a, b, c = (
        _find_matrix(tensors[names.index(name)]) if name in names else None for name in "ABC"
    )
    assert a is not None
    assert b is not None
    c = c if beta != 0 else None
    problem = check_operands(a, b, c, alpha=alpha, beta=beta)
    stacked = any(len(shape) > 2 for shape in shapes.values())
    shape = (*([products] if stacked else []), problem.m, problem.n)
    if products == 0:  # one product without rows is as much
        problem, products = replace(problem, m=0, k=0), 1
        a, b = replace(a, rows=0, columns=0), replace(b, rows=0)
        c = c and replace(c, rows=0)
    if a.step_bytes and not b.step_bytes and (c is None or c.step_bytes) and f == "auto":
        problem = replace(problem, m=products * problem.m)
        a, c = _make_taller(a, products), None if c is None else _make_taller(c, products)
        products = 1
    return Stack(products, problem, shape, a, b, c)


def _count_products(shapes: dict[str, tuple[int, ...]]) -> int:
    counts = {name: shape[0] for name, shape in shapes.items() if len(shape) > 2}
    first = next(iter(counts), None)
    if first is None:
        return 1
    for name, count in counts.items():
        if count != counts[first]:
            limit = f"a stack of {counts[first]}, as {first} is, or one matrix"
            raise ShapesDiffer(f"shape of {name}", shapes[name], limit)
    if counts[first] > MOST_PRODUCTS:
        raise FieldProblem(f"matrices of {first}", counts[first], f"at most {MOST_PRODUCTS}")
    return counts[first]


def _find_matrix(tensor: Tensor) -> Matrix:
    rows, columns = tensor.shape[-2:]
    size_bytes = rows * columns * ITEM_BYTES[tensor.dtype]
    return Matrix(rows, columns, tensor.dtype, size_bytes if len(tensor.shape) > 2 else 0)


def _make_taller(matrix: Matrix, products: int) -> Matrix:
    return Matrix(products * matrix.rows, matrix.columns, matrix.dtype, 0)
