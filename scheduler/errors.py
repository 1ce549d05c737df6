"""Errors of scheduler/: refused requests, and executions that end early."""

from typing import Final, NoReturn

from wavetrim.cpu.errors import CpuError, ProductCancelled
from wavetrim.kernels.errors import DeviceFailure, KernelsError, PipelineCancelled
from wavetrim.native.errors import WavetrimError

CANCELLATIONS: Final = (ProductCancelled, PipelineCancelled)
"""Errors of a part that was cancelled."""


class SchedulerError(WavetrimError):
    """Base of the errors that scheduler/ raises on purpose."""


class FieldError(SchedulerError, ValueError):
    """A refused request: the field, its value and its limit.

    Attributes:
        field: Name of the field, as the caller wrote it.
        value: The refused value.
        limit: Accepted values, in words.
    """

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(f"{field} is {value!r}; it must be {limit}")
        self.field = field
        self.value = value
        self.limit = limit


class ProblemError(FieldError):
    """A size or an element type that no device multiplies."""


class PlanError(FieldError):
    """A plan that cannot be made: an unknown kernel, tile or device, or F outside 0…M."""


class SlabError(FieldError):
    """A matrix outside the arena's slabs, or a slab that is still in use."""


class ProfileError(SchedulerError):
    """A stored profile cannot be read."""


class ExecutionCancelled(SchedulerError):
    """The caller cancelled the execution; C is incomplete."""


class ExecutionError(SchedulerError):
    """A device failed in the middle of a plan.

    Attributes:
        poisoned: Whether the CUDA context is lost, so that the process must end.
    """

    def __init__(self, message: str, *, poisoned: bool = False) -> None:
        super().__init__(message)
        self.poisoned = poisoned


class NodeLost(SchedulerError):
    """A node of a cluster is gone or was given up; the rows that had come back are right."""


class OperandGone(SchedulerError):
    """An operand that a node was to keep is not there."""


class VerificationFailed(SchedulerError):
    """The product did not pass its check."""


class ForkedProcess(SchedulerError):
    """The GPU was asked for in a process that was forked from one that had used it."""


class DrawingUnavailable(SchedulerError):
    """The library that draws plots is not installed."""


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
