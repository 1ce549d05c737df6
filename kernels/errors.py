"""Errors of kernels/."""

import contextlib
from collections.abc import Iterator
from typing import Final, NoReturn

from wavetrim.native.errors import WavetrimError

RECOVERABLE_STATUSES: Final = frozenset({1, 2, 9, 98, 101, 200, 209, 218, 222, 300, 500, 701})
"""CUDA errors after which the context still works: arguments, memory or images were refused before
anything ran. All others (illegal address, failed launch, ECC) poison the context."""

_OUT_OF_MEMORY: Final = 2  # cudaErrorMemoryAllocation


def list_cuda_errors() -> tuple[type[Exception], ...]:
    """CuPy's exceptions for errors of the runtime, of the driver, and for missing memory."""
    from cupy.cuda import driver, memory, runtime

    return runtime.CUDARuntimeError, driver.CUDADriverError, memory.OutOfMemoryError


def is_poisoning(error: BaseException) -> bool:
    """Whether a CUDA error leaves the context unusable; an error without a status does not."""
    return getattr(error, "status", 2) not in RECOVERABLE_STATUSES


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a CUDA error says that the device has too little free memory."""
    return getattr(error, "status", None) == _OUT_OF_MEMORY


class KernelsError(WavetrimError):
    """Base of the errors that kernels/ raises on purpose."""


class UnknownKernel(KernelsError):
    """The catalog has no such kernel, element type or tile.

    Attributes:
        field: "kernel", "dtype" or "tile".
        value: The value given.
        limit: What is accepted, in words.
    """

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(f"{field} is {value!r}; it must be {limit}")
        self.field = field
        self.value = value
        self.limit = limit


class CompilationFailed(KernelsError):
    """A kernel did not compile, or there is no compiler.

    Attributes:
        log: The compiler's output; empty without a compiler.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(f"{message}\n{log}" if log else message)
        self.log = log


class OperandError(KernelsError):
    """Shapes, element types or strides that are not accepted."""


class DeviceUnavailable(KernelsError):
    """No driver, no CuPy, or no such device."""


class DeviceFailure(KernelsError):
    """A CUDA error.

    Attributes:
        poisoned: Whether the CUDA context is unusable, so that the process must end.
    """

    def __init__(self, message: str, *, poisoned: bool = False) -> None:
        super().__init__(message)
        self.poisoned = poisoned


class PipelineCancelled(KernelsError):
    """The caller cancelled the product; C is incomplete."""


@contextlib.contextmanager
def translate_failures() -> Iterator[None]:
    """Raise CUDA errors in the block as `DeviceFailure`."""
    try:
        yield
    except Exception as error:
        raise_failure(error)


def raise_failure(error: BaseException, about: str = "") -> NoReturn:
    """Raise a CUDA error as `DeviceFailure`, whose message begins so, and others as they are."""
    if isinstance(error, list_cuda_errors()):
        raise DeviceFailure(f"{about}{error}", poisoned=is_poisoning(error)) from error
    raise error
