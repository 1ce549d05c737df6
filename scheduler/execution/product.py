"""A planned product: the arrays of one run, and a run's errors."""

from contextlib import nullcontext
from typing import Final, NamedTuple, NoReturn

from wavetrim.cpu.errors import CpuError, ProductCancelled
from wavetrim.kernels.errors import DeviceFailure, KernelsError, PipelineCancelled
from wavetrim.kernels.pipeline.host_product import NO_GPU_HOOKS, GpuHooks, HostProduct
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.errors import ExecutionCancelled, ExecutionError
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks
from wavetrim.scheduler.planning.plan import Plan

NOTHING: Final = nullcontext()
"""A context that does nothing; made once, because that time matters to short products."""

CANCELLATIONS: Final = (ProductCancelled, PipelineCancelled)
"""Errors of a part that was cancelled."""


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
    hooks: Hooks = NO_HOOKS
    timed: bool = False
    b_key: str | None = None

    def take_gpu_rows(
        self, hooks: GpuHooks = NO_GPU_HOOKS, resident_b: Resident | None = None
    ) -> HostProduct:
        """The rows of all GPUs, with what they call, and B if it is on the GPU."""
        plan, a, c = self.plan, self.a, self.c
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        if plan.f:
            a, c = a[: plan.gpu_rows], c[: plan.gpu_rows]
        return HostProduct(
            plan.spec, a, self.b, c, self.alpha, self.beta, hooks, resident_b, self.timed, plan.sms
        )


def raise_translated(cause: BaseException) -> NoReturn:
    """Raise the scheduler's error for an error of kernels/ or cpu/; others as they are.

    Raises:
        ExecutionCancelled: A part was cancelled.
        ExecutionError: A device failed.
    """
    if isinstance(cause, CANCELLATIONS):
        raise ExecutionCancelled("the execution was asked to stop") from cause
    if isinstance(cause, KernelsError | CpuError):
        poisoned = isinstance(cause, DeviceFailure) and cause.poisoned
        raise ExecutionError(str(cause), poisoned=poisoned) from cause
    raise cause
