"""What the scheduler refuses, and how an execution ends early."""


class SchedulerError(Exception):
    """The root of every error that scheduler/ raises on purpose."""


class FieldError(SchedulerError, ValueError):
    """A request that cannot be met: the field, its value and the limit it breaks.

    Attributes:
        field: Name of the field as the caller wrote it.
        value: The value that was refused.
        limit: What would have been accepted, in words.
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
    """A place in the arena that is not there, or a slab that cannot be given up yet."""


class ProfileError(SchedulerError):
    """A stored profile cannot be read."""


class ExecutionCancelled(SchedulerError):
    """The caller asked the execution to stop; C holds an unfinished product."""


class ExecutionError(SchedulerError):
    """A device failed in the middle of a plan.

    Attributes:
        poisoned: True when the CUDA context can no longer be used and the process must end.
    """

    def __init__(self, message: str, *, poisoned: bool = False) -> None:
        super().__init__(message)
        self.poisoned = poisoned


class NodeLost(SchedulerError):
    """A node of a cluster is gone or was given up; the rows that had come back are right."""


class VerificationFailed(SchedulerError):
    """The product is not what its check expects."""


class ForkedProcess(SchedulerError):
    """A process was forked from one that used the GPU, which it cannot use."""


class DrawingUnavailable(SchedulerError):
    """Plots were asked for, and the library that draws them is not installed."""
