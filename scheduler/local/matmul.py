"""Products of NumPy arrays in this process: `wavetrim.matmul`.

Operands follow NumPy's rules. A product is planned if a GPU may have a part of it, or threads share
it. The calling thread computes small products of the CPU by NumPy, which is faster than waking
other threads.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavetrim.cpu.blocks import is_small
from wavetrim.cpu.operands import find_blas_strides
from wavetrim.cpu.products import multiply_alone, multiply_block, quiet, scale
from wavetrim.native.element_types import BLAS_DTYPES, is_integer
from wavetrim.native.pool import Crowd
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
from wavetrim.scheduler.local.known import LEAST_PLANNED_TERMS
from wavetrim.scheduler.local.machine import LocalMachine
from wavetrim.scheduler.local.process import find_known, find_machine
from wavetrim.scheduler.local.stacks import Matrices, StackProblem, find_stack_problem, unstack
from wavetrim.scheduler.options import (
    NO_OPTIONS,
    MachineOptions,
    PlanOptions,
    check_devices,
    check_rows,
    find_accuracy,
)
from wavetrim.scheduler.problem import GemmProblem, Memory

if TYPE_CHECKING:
    from wavetrim.scheduler.local.known import ProductKind
    from wavetrim.scheduler.planning.plan import Plan

Array: TypeAlias = NDArray[Any]


class _Product(NamedTuple):
    """A product without its arrays.

    Attributes:
        problem: Its sizes.
        dtype: Element type of the result.
        alpha: Factor of A·B.
        beta: Factor of C; 0 without C.
        options: Options of the plan.
        device: None, "cpu" or "gpu".
        kind: Its kind, if the next products of that kind may take the same way.
    """

    problem: StackProblem
    dtype: np.dtype[Any]
    alpha: float
    beta: float
    options: PlanOptions
    device: str | None
    kind: "ProductKind | None"

    @property
    def is_plain(self) -> bool:
        """Whether NumPy computes it by BLAS."""
        return self.alpha == 1 and self.beta == 0 and self.dtype in BLAS_DTYPES


def multiply(
    read_options: Callable[[], MachineOptions],
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
    """αA·B + βC: `wavetrim.matmul`, which describes the arguments.

    `read_options` is called for the machine's options where it is not there yet.
    """
    kind = None
    if accuracy is c is devices is None and not verify and (known := find_known()):
        done, kind = known.multiply(a, b, out, alpha=alpha, beta=beta, f=f, device=device)
        if done is not None:
            return done
    left, right = read_array("a", a), read_array("b", b)
    problem = find_stack_problem(left.shape, right.shape)
    dtype = find_dtype(left.dtype, right.dtype, c)
    left, right = convert(left, dtype), convert(right, dtype)
    alpha, beta = read_factor("alpha", alpha, dtype), read_factor("beta", beta, dtype)
    addend = read_addend(c, problem, beta, dtype)
    if out is not None:
        check_out(out, problem, dtype)
    machine = find_machine(read_options, needs_gpu=device != "cpu")
    if device is not None:
        machine.check_device(device)
    is_free = accuracy is devices is None and isinstance(f, str) and f == "auto"
    options = NO_OPTIONS if is_free else _read_options(f, accuracy, devices)
    kind = kind if left is a and right is b and alpha != 0 else None
    product = _Product(problem, dtype, alpha, beta, options, device, kind)
    result = _find_result(out, product, left, right, addend)
    if verify:
        _compute_and_verify(machine, product, left, right, result)
    else:
        _compute(machine, product, left, right, result)
    if out is None:
        return result if result.ndim else result[()]
    if result is not out:
        np.copyto(out, result)
    return out


def _find_result(
    out: Array | None, product: _Product, left: Array, right: Array, addend: Array | None
) -> Array:
    """Memory that the product is computed in: `out` or a new array, which holds C."""
    result = out
    if result is None or not can_write(result, product.problem, left, right, addend):
        result = np.empty(product.problem.shape, product.dtype)
    if addend is not None and addend is not result:
        np.copyto(result, addend, casting="same_kind")
    return result


def _read_options(f: Any, accuracy: str | None, devices: str | None) -> PlanOptions:
    exact = None if accuracy is None else find_accuracy(accuracy)
    return PlanOptions(f=check_rows(f), accuracy=exact, devices=check_devices(devices))


def _compute(
    machine: LocalMachine, product: _Product, left: Array, right: Array, result: Array
) -> None:
    """Write the product into the result, which holds C if β is not 0."""
    problem, device, options = product.problem, product.device, product.options
    if result.size == 0:
        return
    if problem.k == 0:
        scale(result, product.beta)
        return
    if machine.has_ended:
        machine.stop_daemon()
        _compute_alone(product, left, right, result)
        return
    fold = options.f == "auto"  # a given F applies to each matrix
    rows = problem.rows if fold and problem.shares_b else problem.m
    first, parts, kind = None, None, product.kind
    is_free = device != "gpu" and options is NO_OPTIONS
    is_tiny = is_free and rows * problem.n * problem.k < LEAST_PLANNED_TERMS
    crowd: Crowd = "quiet" if is_tiny else (kind and kind.crowd) or machine.find_crowd()
    if machine.has_gpu and device != "cpu" and not is_tiny:
        parts = unstack(left, right, result, problem, fold=fold)
        first = next(parts)
        parts = chain([first], parts)
    has_choice = first is not None or options is not NO_OPTIONS
    plan = _choose_plan(machine, product, rows, first, crowd) if has_choice else None
    is_of_cpu = plan is None or plan.gpu_rows == 0
    blas_crowd = None if is_tiny and min(rows, problem.n) > 1 else crowd
    matrices = left, right, result
    if is_of_cpu and _compute_by_numpy(machine, product, rows, matrices, blas_crowd):
        if kind is not None and machine.known is not None and product.is_plain:
            machine.known.keep_numpy(kind, blas_crowd, plan)
        return
    plan = plan or _choose_plan(machine, product, rows, first, crowd)
    # A GPU reads any strides; a CPU part is slow if BLAS cannot read an operand.
    lay_out = np.asarray if is_integer(product.dtype) or not plan.f else _lay_out
    for a, b, c in parts or unstack(left, right, result, problem, fold=fold):
        machine.planned.run(plan, lay_out(a), lay_out(b), c, alpha=product.alpha, beta=product.beta)
    if kind is not None and machine.known is not None:
        machine.known.keep_plan(kind, plan)


def _compute_alone(product: _Product, left: Array, right: Array, result: Array) -> None:
    """Compute in the calling thread, with no more than NumPy."""
    alpha, beta = product.alpha, product.beta
    for a, b, c in unstack(left, right, result, product.problem, fold=True):
        if alpha == 0:
            scale(c, beta)
        else:
            quiet.context.run(partial(multiply_block, a, b, c, alpha=alpha, beta=beta))


def _choose_plan(
    machine: LocalMachine,
    product: _Product,
    rows: int,
    first: Matrices | None,
    crowd: Crowd,
) -> "Plan":
    """The plan of products of this many rows.

    Args:
        machine: The machine.
        product: The product.
        rows: Rows of each product, of all matrices of a stack that share B.
        first: The first product's matrices, where a GPU may read them.
        crowd: Who else wants the cores.
    """
    memory: Memory = "pageable"
    if first is not None:
        from wavetrim.kernels.transfer.pinned import is_pinned

        memory = "pinned" if all(map(is_pinned, first)) else "pageable"
    sizes, dtype = product.problem, DTYPE_NAMES[product.dtype]
    problem = _find_problem(rows, sizes.n, sizes.k, dtype, memory)
    return machine.planned.choose(problem, product.options, product.device, crowd)


_find_problem = lru_cache(maxsize=1024)(GemmProblem)


def _compute_by_numpy(
    machine: LocalMachine,
    product: _Product,
    rows: int,
    matrices: Matrices,
    crowd: Crowd | None,
) -> bool:
    """Compute a product of the CPU alone by NumPy; False, with nothing done, if it is slower."""
    sizes, dtype, alpha, beta = product.problem, product.dtype, product.alpha, product.beta
    left, right, result = matrices
    if is_small(rows, sizes.n, sizes.k, DTYPE_NAMES[dtype]):
        compute = partial(multiply_alone, alpha=alpha, beta=beta)
        machine.call_blas(crowd, compute, left, right, result)
        return True
    is_matrix = not (sizes.stack or sizes.a_is_vector or sizes.b_is_vector)
    suits = (
        product.is_plain
        and is_matrix
        and machine.suits_numpy(rows, sizes.n, sizes.k, dtype, crowd or "quiet")
    )
    if suits:
        left, right = _lay_out(left), _lay_out(right)
        machine.call_blas(crowd, machine.numpy.multiply, left, right, result)
    return suits


def _lay_out(matrix: Array) -> Array:
    """The matrix, or a copy if BLAS cannot read its layout."""
    suits = matrix.flags.c_contiguous or find_blas_strides(matrix) is not None
    return matrix if suits else np.ascontiguousarray(matrix)


def _compute_and_verify(
    machine: LocalMachine, product: _Product, left: Array, right: Array, result: Array
) -> None:
    """Compute as `_compute` does, and check each matrix of the result.

    Raises:
        VerificationFailed: The result is wrong.
    """
    from wavetrim.scheduler.check.verify import verify_product

    problem, alpha, beta = product.problem, product.alpha, product.beta
    before = result.copy() if beta != 0 else None
    _compute(machine, product, left, right, result)
    if result.size == 0 or problem.k == 0:
        return
    olds = result if before is None else before
    for (a, b, new), (*_, old) in zip(
        unstack(left, right, result, problem, fold=False),
        unstack(left, right, olds, problem, fold=False),
        strict=True,
    ):
        c = None if before is None else old
        with machine.enter_thread():
            verify_product(a, b, c, new, alpha=alpha, beta=beta).require()
