"""Stacks of products that are each too small for a call: NumPy computes many at a time."""

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from wavetrim.cpu.gemm import CpuPool
from wavetrim.cpu.products import multiply_alone
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.product import EngineProduct

_TERMS_AT_ONCE: Final = 1 << 25  # terms, M N K
"""Terms of the products that a thread computes by one call. Chosen: they take some milliseconds, so
that a stack can be cancelled soon, and calls take hardly any of the time."""


def compute_small_stack(
    product: EngineProduct,
    pool: CpuPool,
    *,
    done: Callable[[int], None] | None = None,
    hooks: Hooks = NO_HOOKS,
) -> Timings:
    """Compute a stack of products that a CPU computes in one thread each (`blocks.is_small`).

    `done` is called with the number of products that are done so far.

    Raises:
        ExecutionCancelled: The hooks ended it.
    """
    started = time.perf_counter()
    (_, m, n), k = product.out.shape, product.a.shape[-1]
    many = max(1, _TERMS_AT_ONCE // (m * n * k))

    def compute(first: int) -> None:
        some = product.take(slice(first, first + many))
        a = np.broadcast_to(lay_out(some.a), (len(some.out), m, k))
        multiply_alone(a, lay_out(some.b), some.out, alpha=some.alpha, beta=some.beta)

    step = many * pool.threads
    for first in range(0, product.products, step):
        hooks.end_if_cancelled()
        last = min(first + step, product.products)
        pool.call_each(compute, range(first, last, many))
        if done is not None:
            done(last)
    seconds = time.perf_counter() - started
    return Timings(0.0, 0.0, 0.0, seconds, seconds, m * product.products)


def lay_out(matrix: Matrix) -> Matrix:
    """Matrices, or a copy if neither their rows nor their columns lie together."""
    return matrix if matrix.itemsize in matrix.strides[-2:] else np.ascontiguousarray(matrix)
