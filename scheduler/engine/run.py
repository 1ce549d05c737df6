"""Runs of products: a request's matrices are found, its product planned, computed and checked.

A stack is planned as one of its products.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from wavetrim.cpu.products import scale
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.check.checked import compute_checked
from wavetrim.scheduler.engine.answer import (
    Figures,
    add_figures,
    make_success,
    merge_verifications,
)
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.engine.operands import open_product
from wavetrim.scheduler.errors import VerificationFailed
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks, RowsDone
from wavetrim.scheduler.execution.small_stacks import compute_small_stack, lay_out
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.choice import PlanCache
from wavetrim.scheduler.planning.description import describe_choice, describe_plan
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.residency import Savings
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.product import EngineProduct
from wavetrim.scheduler.profile.machine import MachineProfile

_FILL_BYTES: Final = 32 * 2**20
"""Part of C that is copied before `cancelled` is polled again; chosen."""

Outcome: TypeAlias = tuple[Figures, Figures | None]
"""Timings, and the outcome of a check."""


class Runner:
    """Runs requests on an executor, whatever process it is in. Thread-safe.

    `find_profile` returns the profile of the devices, or that of "cpu" alone.

    Attributes:
        executor: The devices.
        savings: What earlier products say of a B that stays on the GPUs.
    """

    def __init__(
        self, executor: Executor, find_profile: Callable[[str | None], MachineProfile]
    ) -> None:
        self.executor = executor
        self._find_profile = find_profile
        self._plans = PlanCache()
        self.savings = Savings()

    def choose(self, problem: GemmProblem, request: RunRequest, *, gpus_only: bool = False) -> Plan:
        """The plan of a request's product, with its options and devices.

        Raises:
            PlanError: An option cannot be met.
        """
        profile = self._find_profile("cpu" if request.cpu_only else None)
        options = NO_OPTIONS if request.cpu_only else request.options
        device_set = request.device_set
        if gpus_only:
            options = replace(options, f=0)
            device_set = (device_set - {CPU} or None) if device_set is not None else None
        return self._plans.choose(problem, profile, options, device_set)

    def run(
        self,
        request: RunRequest,
        *,
        slabs: MappedSlabs | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> dict[str, Any]:
        """Compute out ← alpha A·B + beta C in the request's memory, or that of a stack's products.

        Args:
            request: The product, its operands and its options.
            slabs: None if all operands are files.
            hooks: What is called while it runs.

        Returns:
            The message `succeeded` without the job's id. Without reports it has `describe_choice`
            of the plan, not all of it. The plan of a stack is that of one product, with their
            number as `stack`; timings are sums. `b_on` are the positions of the GPUs that have a
            stored B now.

        Raises:
            FieldError: The request cannot be planned.
            VerificationFailed: The product is wrong, even when computed again.
            ExecutionCancelled: The hooks ended it.
            ExecutionError: A device failed.
            OSError: A file cannot be mapped.
        """
        hooks.end_if_cancelled()
        product = open_product(request, slabs).convert()
        return self.run_product(request, product, b_key=_find_b_key(request), hooks=hooks)

    def run_product(
        self,
        request: RunRequest,
        product: EngineProduct,
        *,
        b_key: str | None,
        hooks: Hooks = NO_HOOKS,
    ) -> dict[str, Any]:
        """As `run`, for matrices that are open; `b_key` is a key of B, None for none."""
        run = _Run(self, request, product, hooks)
        if not (product.out.size and product.b.size):
            return run.fill_empty()
        plan = run.choose(b_key)
        described = describe_plan(plan) if request.reports else describe_choice(plan)
        if run.is_stack:
            described["stack"] = product.products
        if hooks.planned is not None:
            hooks.planned(described)
        if product.c is not None:
            fill_rows(product.out, np.broadcast_to(product.c, product.out.shape), hooks)
        resident_key = b_key if plan.problem.b_resident else None
        if run.is_stack:
            timings, verification = run.compute_stack(plan, resident_key)
        else:
            timings, verification = run.compute(product, plan, resident_key, hooks)
        event = make_success(described, timings, verification)
        if b_key is not None and plan.profile.gpus:
            event["b_on"] = self.executor.gpus.find_holders(b_key)
        return event


@dataclass(frozen=True, slots=True)
class _Run:
    """One product, or the products of a stack, on its way."""

    runner: Runner
    request: RunRequest
    product: EngineProduct
    hooks: Hooks

    @property
    def is_stack(self) -> bool:
        """Whether it has several products."""
        return self.product.out.ndim > 2

    def fill_empty(self) -> dict[str, Any]:
        """Compute a product without terms, βC: all of it is the CPU's."""
        product, hooks = self.product, self.hooks
        m, (k, n) = product.out.shape[-2], product.b.shape[-2:]
        problem = GemmProblem(m, n, k, product.out.dtype.name, may_be_empty=True)
        plan = self.runner.choose(problem, replace(self.request, device_set=None))
        described = {**describe_plan(plan), "f": m}
        began = time.perf_counter()
        if hooks.planned is not None:
            hooks.planned(described)
        if product.c is not None:
            fill_rows(product.out, product.c, hooks)
        scale(product.out, product.beta)
        seconds = time.perf_counter() - began
        timings = Timings(None, None, 0.0, seconds, seconds, f_actual=m * product.products)
        return make_success(described, timings.as_dict(), None)

    def choose(self, b_key: str | None) -> Plan:
        """The plan of the product, of one of a stack. A stored B is fetched to GPUs if that pays.

        Raises:
            PlanError: An option cannot be met.
            ExecutionError: A device failed.
        """
        runner, rows = self.runner, self.product.out.shape[-2]
        gpus = runner.executor.gpus
        plan = runner.choose(self._describe(rows), self.request)
        if b_key is None or not plan.profile.gpus:
            return plan
        if plan.problem.b_bytes > gpus.resident_limit:
            return plan
        resident = runner.choose(self._describe(rows, b_resident=True), self.request)
        holders = gpus.find_holders(b_key)
        positions = [part.position for part in resident.gpu_parts]
        missing = [position for position in positions if position not in holders]
        if not runner.savings.decide(b_key, plan, resident, missing):
            return plan
        is_there = not missing or gpus.keep(b_key, self.product.b, missing)
        return resident if is_there else plan

    def _choose_gpus(self, rows: int) -> Plan:
        """The plan of some rows of the product on GPUs alone."""
        return self.runner.choose(self._describe(rows), self.request, gpus_only=True)

    def _describe(self, rows: int, *, b_resident: bool = False) -> GemmProblem:
        first = self.product.take(0) if self.is_stack else self.product
        pinned = self.runner.executor.devices and first.is_pinned(b_resident=b_resident)
        memory: Memory = "pinned" if pinned else "pageable"
        k, n = first.b.shape
        return GemmProblem(rows, n, k, first.out.dtype.name, memory, b_resident)

    def compute(
        self, product: EngineProduct, plan: Plan, resident_key: str | None, hooks: Hooks
    ) -> Outcome:
        """Compute a single product, and check it if that is asked for."""
        request, executor = self.request, self.runner.executor
        if request.verify:
            uses_gpu = executor.devices and not request.cpu_only
            timings, verification = compute_checked(
                product, plan, executor, choose_gpu_plan=self._choose_gpus if uses_gpu else None,
                hooks=hooks, b_key=resident_key,
            )  # fmt: skip
            return timings.as_dict(), verification.as_dict()
        timings = executor.run(
            plan, product.a, product.b, product.out, alpha=product.alpha, beta=product.beta,
            hooks=hooks, timed=request.reports or request.timed, b_key=resident_key,
        )  # fmt: skip
        return timings.as_dict(), None

    def compute_stack(self, plan: Plan, resident_key: str | None) -> Outcome:
        """Compute the products of a stack; its rows are those of all, one after the other."""
        product, hooks = self.product, self.hooks
        if plan.is_small and plan.gpu_rows == 0 and not self.request.verify:
            timings = compute_small_stack(
                product, self.runner.executor.pool, done=partial(self._note_done, plan), hooks=hooks
            )
            return timings.as_dict(), None
        outcomes = []
        for index in range(product.products):
            hooks.end_if_cancelled()
            one = product.take(index)
            one = replace(one, a=lay_out(one.a), b=lay_out(one.b))
            # Rows are final once their product is checked.
            told = Hooks(
                progress=hooks.progress and partial(self._report, plan, index),
                cancelled=hooks.cancelled,
            )
            try:
                outcomes.append(self.compute(one, plan, resident_key, told))
            except VerificationFailed as error:
                raise VerificationFailed(f"product {index} of the stack: {error}") from error
            self._note_done(plan, index + 1)
        checks = [verification for _, verification in outcomes]
        return add_figures([timings for timings, _ in outcomes]), merge_verifications(checks)

    def _report(self, plan: Plan, products: int, done: RowsDone | None = None) -> None:
        """Report rows of a stack: those of products that are done, and of the present one."""
        if self.hooks.progress is not None:
            rows = done or RowsDone(0)
            gpu, cpu = products * plan.gpu_rows + rows.gpu, products * plan.f + rows.cpu
            every = self.product.products * plan.problem.m
            self.hooks.progress(RowsDone(every, gpu=gpu, cpu=cpu))

    def _note_done(self, plan: Plan, products: int) -> None:
        """Report the rows of the first products of a stack, which are done, as final."""
        self._report(plan, products)
        if self.hooks.final is not None:
            self.hooks.final([range(products * plan.problem.m)])


def _find_b_key(request: RunRequest) -> str | None:
    """The key of B as the devices read it; None if B may have other bytes next time.

    A B of another element type is converted. Others may change a file, while a stored matrix in a
    slab was checked when it was written, and only the service writes there.
    """
    b = request.b
    as_stored = isinstance(b.slab, int) and b.dtype == request.out.dtype and b.stack is None
    return request.b_key if as_stored else None


def fill_rows(out: Matrix, c: Matrix, hooks: Hooks) -> None:
    """Copy C into the result, which `executor.run` reads and overwrites, in blocks.

    Raises:
        ExecutionCancelled: The hooks ended it between two blocks.
    """
    if out.shape[0] == 1 or (out.shape[1] > 1 and out.strides[0] < out.strides[1]):
        out, c = out.T, c.T  # blocks of columns
    step = max(1, _FILL_BYTES // max(1, out.strides[0]))
    for start in range(0, out.shape[0], step):
        hooks.end_if_cancelled()
        np.copyto(out[start : start + step], c[start : start + step])
