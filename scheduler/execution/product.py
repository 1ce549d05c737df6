"""A planned product: the arrays and arguments of one run, and whether they fit the plan."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.blocks import can_share
from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.prepared import NATIVE_DTYPES
from wavetrim.scheduler.errors import ProblemError
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import ITEM_BYTES

Matrix = NDArray[Any]

NOTHING: Final = nullcontext()
"""A context that does nothing; made once, because that time matters to short products."""

_DTYPES: Final = {name: np.dtype(name) for name in ITEM_BYTES}


class PlannedProduct(NamedTuple):
    """C ← αA·B + βC and how it is run: the arguments of `Executor.run`, which describes them.

    A named tuple, because passing many arguments takes time that matters to short products.
    """

    plan: Plan
    a: Matrix
    b: Matrix
    c: Matrix
    alpha: float
    beta: float
    progress: Callable[[RowsDone], None] | None = None
    cancelled: Callable[[], bool] | None = None
    final: Callable[[Sequence[range]], None] | None = None
    timed: bool = False
    b_key: str | None = None


def check_operands(plan: Plan, a: Matrix, b: Matrix, c: Matrix) -> None:
    """Check that matrices are those of a plan.

    Raises:
        ProblemError: One has another shape or element type.
    """
    problem = plan.problem
    m, n, k, dtype = problem.m, problem.n, problem.k, _DTYPES[problem.dtype]
    fits = a.shape == (m, k) and b.shape == (k, n) and c.shape == (m, n)
    if fits and a.dtype is b.dtype is c.dtype is dtype:  # as nearly always
        return
    for name, array, shape in (("a", a, (m, k)), ("b", b, (k, n)), ("c", c, (m, n))):
        if array.shape != shape:
            raise ProblemError(f"shape of {name}", array.shape, f"{shape}, as planned")
        if array.dtype != dtype:
            raise ProblemError(f"dtype of {name}", str(array.dtype), f"{dtype}, as planned")


def prepare_cpu_part(pool: CpuPool, plan: Plan, dtype: np.dtype[Any]) -> None:
    """Open the threads of a plan's CPU part, if it uses those of the C library."""
    problem = plan.problem
    if plan.f and dtype in NATIVE_DTYPES and can_share(problem.m, problem.n, problem.k):
        pool.prepare()
