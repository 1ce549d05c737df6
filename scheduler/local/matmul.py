"""Products of NumPy arrays in this process: `wavetrim.matmul`.

Operands follow NumPy's rules, and each product is planned. The calling thread computes small
products of the CPU by NumPy, which is faster than waking other threads.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavetrim.cpu.blocks import is_small
from wavetrim.cpu.operands import find_blas_strides
from wavetrim.cpu.products import multiply_alone, scale
from wavetrim.kernels.transfer.pinned import is_pinned
from wavetrim.native.element_types import BLAS_DTYPES, is_integer
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.local.arrays import (
    DTYPE_NAMES,
    can_write,
    check_out,
    convert,
    find_dtype,
    read_addend,
    read_array,
    read_factor,
)
from wavetrim.scheduler.local.machine import LocalMachine
from wavetrim.scheduler.local.stacks import StackProblem, find_stack_problem, split_stacks
from wavetrim.scheduler.options import (
    NO_OPTIONS,
    PlanOptions,
    check_devices,
    check_rows,
    find_accuracy,
)
from wavetrim.scheduler.problem import GemmProblem, Memory

Array: TypeAlias = NDArray[Any]
FindMachine: TypeAlias = Callable[[bool], LocalMachine]


class _Product(NamedTuple):
    """A product without its arrays.

    Attributes:
        problem: Its sizes.
        dtype: Element type of the result.
        alpha: Factor of A·B.
        beta: Factor of C; 0 without C.
        options: Options of the plan.
        device: None, "cpu" or "gpu".
    """

    problem: StackProblem
    dtype: np.dtype[Any]
    alpha: float
    beta: float
    options: PlanOptions
    device: str | None


def multiply(
    find_machine: FindMachine,
    a: ArrayLike,
    b: ArrayLike,
    *,
    alpha: float,
    beta: float,
    c: ArrayLike | None,
    out: Array | None,
    accuracy: str | None,
    f: Any,
    device: str | None,
    devices: str | None,
    verify: bool,
) -> Any:
    """αA·B + βC; see `wavetrim.matmul`.

    Args:
        find_machine: Returns the machine, given whether its GPU may be used.
        a: The left operand.
        b: The right operand.
        alpha: Factor of the product.
        beta: Factor of C.
        c: Added to the product.
        out: Array for the result.
        accuracy: Accuracy of sums on the GPU.
        f: Rows of each matrix of the result that the CPU computes.
        device: None, "cpu" or "gpu".
        devices: GPUs that may be used.
        verify: Whether to check the result.
    """
    is_free = accuracy is devices is None and isinstance(f, str) and f == "auto"
    is_plain = is_free and c is device is None and not verify
    if is_plain and type(alpha) is type(beta) is float and alpha == 1 and beta == 0:
        again = find_machine(True).multiply_again(a, b, out)
        if again is not None:
            return again
    left, right = read_array("a", a), read_array("b", b)
    problem = find_stack_problem(left.shape, right.shape)
    dtype = find_dtype(left.dtype, right.dtype, c)
    left, right = convert(left, dtype), convert(right, dtype)
    alpha, beta = read_factor("alpha", alpha, dtype), read_factor("beta", beta, dtype)
    addend = read_addend(c, problem, beta, dtype)
    if out is not None:
        check_out(out, problem, dtype)
    machine = find_machine(device != "cpu")
    if device is not None:
        machine.check_device(device)
    options = NO_OPTIONS if is_free else _read_options(f, accuracy, devices)
    product = _Product(problem, dtype, alpha, beta, options, device)
    result = out
    if result is None or not can_write(result, problem, left, right, addend):
        result = np.empty(problem.shape, dtype)
    if addend is not None and addend is not result:
        np.copyto(result, addend, casting="same_kind")
    if verify:
        _compute_and_verify(machine, product, left, right, result)
    else:
        _compute(machine, product, left, right, result)
    if out is None:
        return result if result.ndim else result[()]
    if result is not out:
        np.copyto(out, result)
    return out


def _read_options(f: Any, accuracy: str | None, devices: str | None) -> PlanOptions:
    exact = None if accuracy is None else find_accuracy(accuracy)
    return PlanOptions(f=check_rows(f), accuracy=exact, devices=check_devices(devices))


def _compute(
    machine: LocalMachine, product: _Product, left: Array, right: Array, result: Array
) -> None:
    """Write the product into the result, which holds C if β is not 0."""
    problem, options = product.problem, product.options
    if result.size == 0:
        return
    if problem.k == 0:
        scale(result, product.beta)
        return
    fold = options.f == "auto"  # a given F applies to each matrix
    rows = problem.rows if fold and problem.shares_b else problem.m
    parts = split_stacks(left, right, result, problem, fold=fold)
    memory: Memory = "pageable"
    if machine.has_gpu and product.device != "cpu":
        first = next(parts)
        parts = chain([first], parts)
        memory = "pinned" if all(map(is_pinned, first)) else "pageable"
    question = _ask(rows, problem.n, problem.k, DTYPE_NAMES[product.dtype], memory)
    plan = machine.choose_plan(question.problem, options, product.device)
    if plan.gpu_rows == 0 and _suits_numpy(machine, product, question):
        if not question.is_small:
            left, right = _lay_out(left), _lay_out(right)
        machine.multiply_by_numpy(left, right, result)
        is_steady = question.is_small or not machine.has_gpu
        if is_steady and product.device is None and options is NO_OPTIONS:
            machine.remember(left, right)
        return
    if question.is_small and plan.gpu_rows == 0:
        with machine.find_own_turn():
            multiply_alone(left, right, result, alpha=product.alpha, beta=product.beta)
        return
    # A GPU reads any strides; a CPU part is slow if BLAS cannot read an operand.
    lay_out = np.asarray if is_integer(product.dtype) or not plan.f else _lay_out
    for a, b, c in parts:
        machine.run(plan, lay_out(a), lay_out(b), c, alpha=product.alpha, beta=product.beta)


def _suits_numpy(machine: LocalMachine, product: _Product, question: "_Question") -> bool:
    """Whether NumPy is to compute a product of the CPU alone."""
    if product.alpha != 1 or product.beta != 0 or product.dtype not in BLAS_DTYPES:
        return False
    if question.is_small:
        return True
    sizes = product.problem
    is_matrix = not (sizes.stack or sizes.a_is_vector or sizes.b_is_vector)
    return is_matrix and machine.suits_numpy(question.problem, product.dtype)


class _Question(NamedTuple):
    """A product to plan, and whether it is small (`is_small`)."""

    problem: GemmProblem
    is_small: bool


@lru_cache(maxsize=1024)
def _ask(m: int, n: int, k: int, dtype: str, memory: Memory) -> _Question:
    return _Question(GemmProblem(m, n, k, dtype, memory), is_small(m, n, k, dtype))


def _lay_out(matrix: Array) -> Array:
    """The matrix, or a copy if BLAS cannot read its layout."""
    return matrix if find_blas_strides(matrix) is not None else np.ascontiguousarray(matrix)


def _compute_and_verify(
    machine: LocalMachine, product: _Product, left: Array, right: Array, result: Array
) -> None:
    """Compute as `_compute` does, and check each matrix of the result.

    Raises:
        VerificationFailed: The result is wrong.
    """
    problem, alpha, beta = product.problem, product.alpha, product.beta
    before = result.copy() if beta != 0 else None
    _compute(machine, product, left, right, result)
    if result.size == 0 or problem.k == 0:
        return
    olds = result if before is None else before
    for (a, b, new), (*_, old) in zip(
        split_stacks(left, right, result, problem, fold=False),
        split_stacks(left, right, olds, problem, fold=False),
        strict=True,
    ):
        c = None if before is None else old
        with machine.find_own_turn():
            verify_product(a, b, c, new, alpha=alpha, beta=beta).require()
