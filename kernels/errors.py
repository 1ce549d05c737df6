"""What the kernels refuse, and how a launch fails."""

from typing import Final

RECOVERABLE_STATUSES: Final = frozenset({1, 2, 9, 98, 101, 200, 209, 218, 222, 300, 500, 701})
"""CUDA errors after which the context still works: arguments, memory and images refused before
anything ran. Every other error (an illegal address, a failed launch, ECC) poisons the context."""


class KernelsError(Exception):
    """The root of every error that kernels/ raises on purpose."""


class UnknownKernel(KernelsError):
    """The catalog has no such kernel, element type or tile.

    Attributes:
        field: "kernel", "dtype" or "tile".
        value: The value that was refused.
        limit: What would have been accepted, in words.
    """

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(f"{field} is {value!r}; it must be {limit}")
        self.field = field
        self.value = value
        self.limit = limit


class CompilationFailed(KernelsError):
    """A kernel did not compile, or there is no compiler.

    Attributes:
        log: What the compiler said; empty when there is none.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(f"{message}\n{log}" if log else message)
        self.log = log


class OperandError(KernelsError):
    """Shapes, element types or strides that a launch cannot take."""


class DeviceUnavailable(KernelsError):
    """No driver, no CuPy, or no such device."""


class DeviceFailure(KernelsError):
    """A CUDA error while work ran.

    Attributes:
        poisoned: True when the CUDA context can no longer be used and the process must end.
    """

    def __init__(self, message: str, *, poisoned: bool = False) -> None:
        super().__init__(message)
        self.poisoned = poisoned


class PipelineCancelled(KernelsError):
    """The caller asked the pipeline to stop; C holds an unfinished product."""
