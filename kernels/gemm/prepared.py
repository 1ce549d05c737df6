"""Launches that are made ready once and enqueued as often as one likes.

What a launch needs and keeps (function, grid, arguments in memory, tensor maps, factors) is put
together here, so that to enqueue it is one call of the driver's.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from wavetrim.kernels.errors import RECOVERABLE_STATUSES, DeviceFailure

_bound = threading.local()


class Call(Protocol):
    """One entry of a stream."""

    def enqueue(self, stream: int) -> None:
        """Enqueue it.

        Args:
            stream: Address of CuPy's current stream.
        """


@dataclass(frozen=True, slots=True)
class DriverCall:
    """A function of CUDA's that takes a stream, and its other arguments.

    Attributes:
        function: CuPy's.
        before: Arguments before the stream.
        after: Arguments behind it.
        memory: What the arguments point to, on the host or on the device.
    """

    function: Callable[..., object]
    before: tuple[int, ...]
    after: tuple[int, ...] = ()
    memory: object = None

    def enqueue(self, stream: int) -> None:
        """As `Call` says."""
        self.function(*self.before, stream, *self.after)


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """All that computes one product on one device, in order.

    Attributes:
        label: The kernel, for messages.
        calls: What is enqueued.
        lasting: Whether it may be kept: False if it holds memory that others could use, or if it
            stands in for a launch that there was no memory for.
    """

    label: str
    calls: tuple[Call, ...]
    lasting: bool = True

    def enqueue(self, stream: int) -> None:
        """Enqueue it; does not wait. Nothing of it may be under way in another stream.

        Args:
            stream: Address of CuPy's current stream, on the device that it was prepared for.

        Raises:
            DeviceFailure: CUDA or cuBLAS refuses it.
        """
        try:
            for call in self.calls:
                call.enqueue(stream)
        except Exception as error:
            raise_failure(self.label, error)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of a kernel where the driver reads them.

    Attributes:
        address: Of an array of pointers, one to each.
        memory: The array and what it points to.
    """

    address: int
    memory: object


def pack_arguments(values: Sequence[Any]) -> Arguments:
    """Put a kernel's arguments into memory.

    Args:
        values: Numbers and arrays of ctypes, in the kernel's order and of its types.
    """
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    return Arguments(ctypes.addressof(pointers), (pointers, tuple(values)))


def prepare_kernel(
    function: Any,
    blocks: int,
    block: tuple[int, ...],
    values: Sequence[Any],
    *,
    shared_bytes: int = 0,
    memory: object = None,
) -> DriverCall:
    """A launch of one kernel in a grid of one dimension.

    Args:
        function: CuPy's function, loaded on the current device.
        blocks: Thread blocks.
        block: Shape of one, x first.
        values: Its arguments, as `pack_arguments` takes them.
        shared_bytes: Dynamic shared memory of a block.
        memory: What else is to live as long as the launch.
    """
    from cupy.cuda import driver

    x, y, z = (*block, 1, 1)[:3]
    arguments = pack_arguments(values)
    return DriverCall(
        driver.launchKernel,
        (function.kernel.ptr, blocks, 1, 1, x, y, z, shared_bytes),
        (arguments.address, 0),
        (arguments.memory, function, memory),
    )


def prepare_clearing(pointer: int, size_bytes: int) -> DriverCall:
    """Set device memory to 0."""
    from cupy.cuda import runtime

    return DriverCall(runtime.memsetAsync, (pointer, 0, size_bytes))


def bind_context() -> None:
    """Make the current device's context that of this thread, where nothing has done so yet.

    Launches go to the driver, which, unlike the runtime, does not do so by itself.
    """
    from cupy.cuda import runtime

    devices = getattr(_bound, "devices", None)
    if devices is None:
        devices = _bound.devices = set()
    device = runtime.getDevice()
    if device not in devices:
        runtime.memGetInfo()
        devices.add(device)


def raise_failure(label: str, error: Exception) -> NoReturn:
    """Raise an error of CUDA's as this project's; any other as it is."""
    from cupy.cuda.driver import CUDADriverError
    from cupy.cuda.runtime import CUDARuntimeError

    if not isinstance(error, CUDADriverError | CUDARuntimeError):
        raise error
    poisoned = error.status not in RECOVERABLE_STATUSES
    raise DeviceFailure(f"{label}: {error}", poisoned=poisoned) from error
