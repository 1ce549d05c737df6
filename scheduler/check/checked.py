"""Computes a product, checks it, and computes wrong rows again.

While the GPU computes, idle cores of the CPU compute the checksums of the factors. Those of the
product follow when it is done.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.blocks import can_share
from wavetrim.cpu.errors import CpuError
from wavetrim.kernels.transfer.pinned import is_pinned
from wavetrim.scheduler.check.checksums import ALONE
from wavetrim.scheduler.check.verify import ProductCheck, Verification
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.execution.run import raise_translated
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.planning.plan import Plan

Matrix = NDArray[Any]

_ROUNDS: Final = 2
"""Most times that rows are computed again: first those found, then all, as some may be missed."""


@dataclass(frozen=True, slots=True)
class EngineProduct:
    """The matrices and factors of a product.

    Attributes:
        a: M x K, of the result's element type.
        b: K x N, likewise.
        c: M x N, likewise, sharing no memory with `out`; None if beta is 0.
        out: M x N; holds C before the product if beta is not 0.
        alpha: Factor of A·B; a whole number for integers, whose products are exact.
        beta: Factor of C, likewise.
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    out: Matrix
    alpha: float
    beta: float

    def is_pinned(self, *, b_resident: bool = False) -> bool:
        """Whether all matrices that a GPU copies are page-locked."""
        copied = (self.a, self.out) if b_resident else (self.a, self.b, self.out)
        return all(is_pinned(matrix) for matrix in copied)


def compute_checked(
    product: EngineProduct,
    plan: Plan,
    executor: Executor,
    *,
    choose_gpu_plan: Callable[[int], Plan] | None,
    changes: Callable[[], None] | None = None,
    progress: Callable[[RowsDone], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    final: Callable[[Sequence[range]], None] | None = None,
    b_key: str | None = None,
) -> tuple[Timings, Verification]:
    """Compute a product, check it, and compute rows that are wrong again on the other device.

    Args:
        product: The product.
        plan: How it is computed.
        executor: Runs the plan.
        choose_gpu_plan: Returns the plan of this number of rows for the GPU alone; None not to use
            the GPU.
        changes: Called before rows are written again that may have been reported as final.
        progress: As for `Executor.run`.
        cancelled: As for `Executor.run`.
        final: As for `Executor.run`.
        b_key: As for `Executor.run`. A resident B is dropped if the product is wrong.

    Raises:
        VerificationFailed: The product is wrong, even when computed again.
        ExecutionError: A device failed.
        ExecutionCancelled: `cancelled` returned True.
    """
    a, b, c, out = product.a, product.b, product.c, product.out
    # A small product does without the C library, which might have to be compiled first.
    m, n = out.shape
    is_shared = can_share(m, n, b.shape[0])
    check = ProductCheck(
        a, b, c, out,
        alpha=product.alpha, beta=product.beta, workers=executor.pool if is_shared else ALONE,
    )  # fmt: skip
    with _sum_beside(check, beside=plan.gpu_rows > 0):
        timings = executor.run(
            plan, a, b, out, alpha=product.alpha, beta=product.beta,
            progress=progress, cancelled=cancelled, final=final, timed=True, b_key=b_key,
        )  # fmt: skip
    start = time.perf_counter()
    verification = check.compare()
    if not verification.passed:
        if changes is not None:
            changes()
        if b_key is not None:
            executor.residents.forget(b_key)
        repair = _Repair(product, executor, out.shape[0] - timings.f_actual, choose_gpu_plan)
        verification = repair.run(check, verification, cancelled)
    return timings, replace(verification, seconds=time.perf_counter() - start)


@contextmanager
def _sum_beside(check: ProductCheck, *, beside: bool) -> Iterator[None]:
    """Compute the factors' checksums in another thread while the block runs; not without `beside`.

    Raises:
        BaseException: An error of that thread, unless the block raises one.
    """
    if not beside:
        yield
        return
    failures: list[BaseException] = []

    def sum_factors() -> None:
        try:
            check.sum_factors()
        except BaseException as error:  # it belongs to the calling thread
            failures.append(error)

    thread = threading.Thread(target=sum_factors, name="check", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()  # it reads the operands
    if failures:
        raise failures[0]


class _Repair:
    """Computes rows again, each on the device that did not compute it.

    Args:
        product: The product.
        executor: Its devices.
        gpu_rows: Rows that the GPU has computed; the first ones.
        choose_gpu_plan: As for `compute_checked`.
    """

    def __init__(
        self,
        product: EngineProduct,
        executor: Executor,
        gpu_rows: int,
        choose_gpu_plan: Callable[[int], Plan] | None,
    ) -> None:
        self._product = product
        self._executor = executor
        self._gpu_rows = gpu_rows
        self._choose_gpu_plan = choose_gpu_plan
        self._used: set[str] = set()

    def run(
        self,
        check: ProductCheck,
        verification: Verification,
        cancelled: Callable[[], bool] | None,
    ) -> Verification:
        """Compute rows again until the product passes.

        Raises:
            VerificationFailed: It does not pass.
            ExecutionError: A device failed.
            ExecutionCancelled: `cancelled` returned True.
        """
        m = self._product.out.shape[0]
        rows, again = verification.wrong_rows, verification
        for _ in range(_ROUNDS):
            for part in _find_ranges(rows, self._gpu_rows):
                self._compute(part, cancelled)
            again = check.compare()
            if again.passed:
                used = " and ".join(sorted(self._used))
                return replace(again, wrong_rows=rows, recomputed_on=used)
            rows = tuple(range(m))
        again.require()
        raise AssertionError("a product that did not pass is refused")

    def _compute(self, rows: range, cancelled: Callable[[], bool] | None) -> None:
        product, part = self._product, slice(rows.start, rows.stop)
        a, b, out = product.a[part], product.b, product.out[part]
        if product.c is not None:
            np.copyto(out, product.c[part])
        plan = self._plan(rows)
        if plan is None:
            self._used.add("cpu")
            try:
                self._executor.pool.multiply(
                    a, b, out, alpha=product.alpha, beta=product.beta, cancelled=cancelled
                )
            except CpuError as error:
                raise_translated(error)
        else:
            self._used.add("gpu")
            self._executor.run(
                plan, a, b, out, alpha=product.alpha, beta=product.beta, cancelled=cancelled
            )

    def _plan(self, rows: range) -> Plan | None:
        """The plan to compute rows again on the GPU; None to compute them on the CPU."""
        if rows.start < self._gpu_rows or self._choose_gpu_plan is None:
            return None
        try:
            return self._choose_gpu_plan(len(rows))
        except PlanError:  # no kernel has this element type or this accuracy
            return None


def _find_ranges(rows: Sequence[int], boundary: int) -> Iterator[range]:
    """Rising rows as ranges that do not cross a boundary."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end] != rows[end - 1] + 1 or rows[end] == boundary:
            yield range(rows[start], rows[end - 1] + 1)
            start = end
