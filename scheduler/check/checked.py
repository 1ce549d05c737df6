"""Computes a product, checks it, and computes wrong rows again."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from wavetrim.cpu.errors import CpuError
from wavetrim.native.call_threads import CallThreads
from wavetrim.scheduler.check.verify import ProductCheck, Verification
from wavetrim.scheduler.errors import PlanError, raise_translated
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.product import EngineProduct


def compute_checked(
    product: EngineProduct,
    plan: Plan,
    executor: Executor,
    *,
    choose_gpu_plan: Callable[[int], Plan] | None,
    hooks: Hooks = NO_HOOKS,
    b_key: str | None = None,
) -> tuple[Timings, Verification]:
    """Compute a product, check it, and compute rows that are wrong again on the other device.

    `choose_gpu_plan` returns the plan of this number of rows for the GPU alone; None not to use it.
    A resident B (`b_key`, as for `Executor.run`) is dropped if the product is wrong.

    Raises:
        VerificationFailed: The product is wrong, even when computed again.
        ExecutionError: A device failed.
        ExecutionCancelled: The hooks ended it.
    """
    m, check = len(product.out), ProductCheck(product, pool=executor.pool)
    thread = CallThreads(1, "check")
    summed = thread.submit(check.sum_factors) if plan.gpu_rows > 0 else None
    try:
        timings = executor.run(
            plan, product.a, product.b, product.out, alpha=product.alpha, beta=product.beta,
            hooks=hooks, timed=True, b_key=b_key,
        )  # fmt: skip
    finally:
        thread.close()  # it has read the operands
    if summed is not None:
        summed.result()
    start = time.perf_counter()
    verification = check.compare()
    found, used, again = verification.wrong_rows, set[str](), Hooks(cancelled=hooks.cancelled)
    if found and hooks.changes is not None:
        hooks.changes()
    if found and b_key is not None:
        executor.gpus.forget(b_key)
    for wrong in (found, range(m)):  # all in the end, as some may be missed
        if not verification.passed:
            for rows in _find_ranges(wrong, m - timings.f_actual):
                choose_plan = None if rows.start < m - timings.f_actual else choose_gpu_plan
                used.add(_compute_again(product, rows, choose_plan, executor, again))
            verification = check.compare()
    verification.require()
    seconds = time.perf_counter() - start
    devices = " and ".join(sorted(used)) or None
    return timings, replace(verification, wrong_rows=found, recomputed_on=devices, seconds=seconds)


def _find_ranges(rows: Sequence[int], boundary: int) -> list[range]:
    """Rising rows as ranges that do not cross a boundary."""
    begins = np.flatnonzero((np.diff(rows) != 1) | (np.asarray(rows[1:]) == boundary)) + 1
    return [range(part[0], part[-1] + 1) for part in np.split(np.asarray(rows), begins)]


def _compute_again(
    product: EngineProduct,
    rows: range,
    choose_plan: Callable[[int], Plan] | None,
    executor: Executor,
    hooks: Hooks,
) -> str:
    """Compute rows again, by a plan if one can be chosen, else on the CPU; returns the device."""
    part, alpha, beta = slice(rows.start, rows.stop), product.alpha, product.beta
    a, b, out = product.a[part], product.b, product.out[part]
    if product.c is not None:
        np.copyto(out, product.c[part])
    plan = None
    with suppress(PlanError):  # no kernel has this element type or this accuracy
        plan = choose_plan(len(rows)) if choose_plan is not None else None
    if plan is not None:
        executor.run(plan, a, b, out, alpha=alpha, beta=beta, hooks=hooks)
        return "gpu"
    try:
        executor.pool.multiply(a, b, out, alpha=alpha, beta=beta, cancelled=hooks.cancelled)
    except CpuError as error:
        raise_translated(error)
    return "cpu"
