"""Prepared launches: made once, enqueued any number of times.

A prepared launch holds function, grid, arguments in memory, tensor maps and factors, so that one
driver call enqueues it. The same call can be a command (pipeline/commands.py), which C submits.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, NoReturn, Protocol

from wavetrim.kernels.errors import DeviceFailure, is_poisoning, list_cuda_errors

_bound = threading.local()


class CommandKind(IntEnum):
    """Kinds of commands, as in kernels/transfer/native/commands.c."""

    LAUNCH = 0
    CLEAR = 1
    MULTIPLY = 2
    COPY_IN = 3
    COPY_OUT = 4
    RECORD = 5
    WAIT = 6
    COPY_BETWEEN = 7
    WAIT_FOR_PEER = 8
    STAGE_IN = 9
    STAGE_OUT = 10


class Command(NamedTuple):
    """An operation of a stream as numbers, so that C can submit it."""

    kind: CommandKind
    words: tuple[int, ...]


class Call(Protocol):
    """One operation of a stream."""

    @property
    def command(self) -> Command:
        """The call as a command, whose memory the call keeps alive."""

    def enqueue(self, stream: int) -> None:
        """Enqueue the operation.

        Args:
            stream: Address of CuPy's current stream.
        """


@dataclass(frozen=True, slots=True)
class DriverCall:
    """A CUDA function that takes a stream, and its other arguments.

    Attributes:
        function: CuPy's wrapper of the function.
        before: Arguments before the stream.
        command: The same as a command.
        after: Arguments after the stream.
        memory: Host or device memory that the arguments point to, kept alive.
    """

    function: Callable[..., object]
    before: tuple[int, ...]
    command: Command
    after: tuple[int, ...] = ()
    memory: object = None

    def enqueue(self, stream: int) -> None:
        """As `Call` says."""
        self.function(*self.before, stream, *self.after)


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """The calls that compute one product on one device, in order.

    Attributes:
        label: The kernel, for messages.
        calls: The calls.
        lasting: Whether it may be cached. False if it uses memory from CuPy's pool, or replaces a
            launch for which memory was short.
    """

    label: str
    calls: tuple[Call, ...]
    lasting: bool = True

    def enqueue(self, stream: int) -> None:
        """Enqueue the calls without waiting. The launch may not run in another stream meanwhile.

        Args:
            stream: Address of CuPy's current stream, on the device of the launch.

        Raises:
            DeviceFailure: CUDA or cuBLAS refuses a call.
        """
        try:
            for call in self.calls:
                call.enqueue(stream)
        except Exception as error:
            raise_failure(self.label, error)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of a kernel in memory, as the driver reads them.

    Attributes:
        address: Address of an array of pointers to the arguments.
        memory: The array and the arguments, kept alive.
    """

    address: int
    memory: object


def pack_arguments(values: Sequence[Any]) -> Arguments:
    """Store a kernel's arguments in memory.

    Args:
        values: ctypes numbers and arrays, in the kernel's order and of its types.
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
    """Prepare a launch of one kernel in a one-dimensional grid.

    Args:
        function: CuPy's function, loaded on the current device.
        blocks: Number of thread blocks.
        block: Shape of a thread block, x first.
        values: Arguments, as for `pack_arguments`.
        shared_bytes: Dynamic shared memory of a block in bytes.
        memory: Further memory to keep alive.
    """
    from cupy.cuda import driver

    x, y, z = (*block, 1, 1)[:3]
    arguments, address = pack_arguments(values), int(function.kernel.ptr)
    words = address, blocks, x, y, z, shared_bytes, arguments.address
    return DriverCall(
        driver.launchKernel,
        (address, blocks, 1, 1, x, y, z, shared_bytes),
        Command(CommandKind.LAUNCH, words),
        (arguments.address, 0),
        (arguments.memory, function, memory),
    )


def prepare_clearing(pointer: int, size_bytes: int) -> DriverCall:
    """Prepare a call that sets device memory to 0."""
    from cupy.cuda import runtime

    command = Command(CommandKind.CLEAR, (pointer, size_bytes))
    return DriverCall(runtime.memsetAsync, (pointer, 0, size_bytes), command)


def bind_context() -> None:
    """Bind the current device's primary context to this thread, once for each device.

    Launches call the driver, which, unlike the runtime, does not bind a context by itself.
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
    """Raise a CUDA error as `DeviceFailure`, and any other error as it is."""
    if not isinstance(error, list_cuda_errors()):
        raise error
    raise DeviceFailure(f"{label}: {error}", poisoned=is_poisoning(error)) from error
