"""Prepared launches: made once, enqueued any number of times.

A prepared launch is a list of commands: function, grid, arguments in memory, tensor maps and
factors, as numbers. So one call of the driver enqueues each. Python makes these calls
(`dispatch.enqueue`), or C for a whole product (pipeline/commands.py).
"""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Command:
    """One operation of a stream as numbers.

    Attributes:
        kind: What it does.
        words: Its arguments.
        memory: Host or device memory that they point to, kept alive.
    """

    kind: CommandKind
    words: tuple[int, ...]
    memory: Any = None


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """The commands that compute one product on one device, in order.

    Attributes:
        commands: The commands. They may not run in two streams at once.
        lasting: Whether it may be cached. False if it uses memory from CuPy's pool, or replaces a
            launch for which memory was short.
    """

    commands: tuple[Command, ...]
    lasting: bool = True


def pack_arguments(values: Sequence[Any]) -> tuple[int, object]:
    """Store a kernel's arguments in memory, as the driver reads them.

    Args:
        values: ctypes numbers and arrays, in the kernel's order and of its types.

    Returns:
        The address of an array of pointers to the arguments, and what keeps all of them alive.
    """
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    return ctypes.addressof(pointers), (pointers, tuple(values))


def prepare_kernel(
    function: Any,
    blocks: int,
    block: tuple[int, ...],
    values: Sequence[Any],
    *,
    shared_bytes: int = 0,
    memory: object = None,
) -> Command:
    """Prepare a launch of one kernel in a one-dimensional grid.

    Args:
        function: CuPy's function, loaded on the current device.
        blocks: Number of thread blocks.
        block: Shape of a thread block, x first.
        values: Arguments, as for `pack_arguments`.
        shared_bytes: Dynamic shared memory of a block in bytes.
        memory: Further memory to keep alive.
    """
    x, y, z = (*block, 1, 1)[:3]
    arguments, kept = pack_arguments(values)
    words = int(function.kernel.ptr), blocks, x, y, z, shared_bytes, arguments
    return Command(CommandKind.LAUNCH, words, (kept, function, memory))


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
