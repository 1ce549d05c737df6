"""The products of a stack: one request with one answer, all by the plan of one product."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from wavetrim.scheduler.check.verify import Verification, merge_verifications
from wavetrim.scheduler.errors import ExecutionCancelled, VerificationFailed
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows_done import RowsDone
from wavetrim.scheduler.execution.small_stacks import compute_small_stack, lay_out
from wavetrim.scheduler.execution.timings import Timings, sum_products
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.product import EngineProduct

Progress: TypeAlias = Callable[[RowsDone], None]
Final: TypeAlias = Callable[[Sequence[range]], None]
Outcome: TypeAlias = tuple[Timings, Verification | None]
ComputeOne: TypeAlias = Callable[[EngineProduct, Progress | None], Outcome]


def compute_stack(
    product: EngineProduct,
    plan: Plan,
    executor: Executor,
    *,
    compute_one: ComputeOne,
    verify: bool,
    progress: Progress | None,
    final: Final | None,
    cancelled: Callable[[], bool],
) -> Outcome:
    """Compute the products of a stack; its rows are those of all products, one after the other.

    Args:
        product: The stack; not empty.
        plan: The plan of each product.
        executor: Runs the plan.
        compute_one: Computes one product, reporting its rows, and checks it if that is asked for.
        verify: Whether each product is checked.
        progress: Called with the finished rows, from any thread.
        final: Called with the rows that will not be written again, after each product.
        cancelled: Polled between products; True ends them.

    Returns:
        The sums of all timings, and one verification of all products; None unless they are checked.

    Raises:
        VerificationFailed: A product is wrong, even when computed again.
        ExecutionCancelled: `cancelled` returned True.
        ExecutionError: A device failed.
    """
    rows = _StackRows(product, plan, progress, final)
    if plan.is_small and plan.gpu_rows == 0 and not verify:
        timings = compute_small_stack(
            product, executor.pool, done=rows.note_done, cancelled=cancelled
        )
        return timings, None
    outcomes = []
    for index in range(product.products):
        if cancelled():
            raise ExecutionCancelled("cancelled between two products of a stack")
        one = product.take(index)
        one = replace(one, a=lay_out(one.a), b=lay_out(one.b))
        try:
            outcomes.append(compute_one(one, None if progress is None else rows.report))
        except VerificationFailed as error:
            raise VerificationFailed(f"product {index} of the stack: {error}") from error
        rows.note_done(index + 1)
    timings = sum_products([one for one, _ in outcomes])
    checked = [one for _, one in outcomes if one is not None]
    return timings, merge_verifications(checked, plan.problem.m) if verify else None


class _StackRows:
    """Reports the rows of a stack."""

    def __init__(
        self, product: EngineProduct, plan: Plan, progress: Progress | None, final: Final | None
    ) -> None:
        self._plan, self._progress, self._final = plan, progress, final
        self._all = product.products * plan.problem.m
        self._done = RowsDone(self._all)

    def report(self, done: RowsDone) -> None:
        """These rows of the present product are done."""
        assert self._progress is not None, "only reports ask for this"
        before = self._done
        self._progress(RowsDone(self._all, gpu=before.gpu + done.gpu, cpu=before.cpu + done.cpu))

    def note_done(self, products: int) -> None:
        """So many products are done."""
        plan = self._plan
        self._done = RowsDone(self._all, gpu=products * plan.gpu_rows, cpu=products * plan.f)
        if self._progress is not None:
            self._progress(self._done)
        if self._final is not None:
            self._final([range(products * plan.problem.m)])
