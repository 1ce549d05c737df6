"""Messages between service and engine: JSON documents, one in each packet, over two sockets.

The thread that computes reads the work socket, in order. The service sends `slab` (with its
descriptor), `drop`, `run`, `forget` (a matrix was deleted) and `shutdown` there. The engine sends
`ready`, `locked`, `dropped`, `begun` (a device's thread has begun a product: on which devices, for
how long), `planned`, `progress`, `rows` (rows of the result that will not be written again),
`again` (they will after all, as the product did not pass its check), and for each run one of
`succeeded`, `failed` and `cancelled`. The control socket is read while a product runs: `ping`,
answered by `pong` (with the latest readings of the GPUs, and what stays on them), and `cancel`,
which has the number of its `run`: a job that is tried again has the same id. Messages contain no
matrices: both sides map the same memory.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from wavetrim.cpu.blocks import is_small
from wavetrim.scheduler.errors import SchedulerError
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.device_sets import DeviceSet

Message: TypeAlias = Mapping[str, Any]
"""A message as decoded."""

Send: TypeAlias = Callable[[Message], None]
"""Sends a message."""

POISONED_EXIT: Final = 70
STALLED_EXIT: Final = 71
"""Exit status of a process that computes: after a CUDA error that leaves its context unusable, and
after a GPU made no progress for too long."""

FINAL_TYPES: Final = frozenset({"succeeded", "failed", "cancelled"})
"""Types of the message that ends a run."""

PACKET_BYTES: Final = 2**17
"""Size of the largest packet. Chosen: a run or a plan takes about a thousandth of it."""

LONG_BYTES: Final = 2**14
"""Length from which a message is compressed. Chosen: the profile of eight GPUs, which are alike,
has 150 kB, and a packet beyond PACKET_BYTES would arrive cut off."""

SMALL_OPERATIONS: Final = 1e8
"""Most operations of a small product. Chosen: they take milliseconds on any machine."""


_COMPRESSED: Final = zlib.compress(b"")[:1]


class MessageError(SchedulerError):
    """A packet is not a message."""


class Operand(NamedTuple):
    """A matrix, or a stack of matrices, in memory shared by service and engine.

    It lies in a slab of the arena, or in a file. In a message it is a list.

    Attributes:
        slab: Id of the slab, or path of the file.
        offset_bytes: Offset of the first element.
        rows: Rows of each matrix.
        columns: Columns of each matrix.
        dtype: NumPy's name of the element type.
        fortran_order: Whether a matrix, or a stack, without gaps is in Fortran's order.
        strides_bytes: Row and column stride; None for a matrix without gaps, and for a stack.
        stack: How many matrices a stack has; None for a single matrix.
    """

    slab: int | str
    offset_bytes: int
    rows: int
    columns: int
    dtype: str
    fortran_order: bool = False
    strides_bytes: tuple[int, int] | None = None
    stack: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, as an array's."""
        matrix = self.rows, self.columns
        return matrix if self.stack is None else (self.stack, *matrix)

    @classmethod
    def read(cls, document: list[Any]) -> "Operand":
        """Read the operand of a message."""
        *place, strides, stack = document
        return cls._make((*place, None if strides is None else tuple(strides), stack))


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One product for the engine, or those of a stack: out ← alpha A·B + beta C.

    All products of a stack have the same sizes and share an operand that is a single matrix. Plan
    and options are those of one product.

    Attributes:
        job: Id of the run in the engine's messages.
        a: M x K.
        b: K x N.
        c: M x N; None if beta is 0.
        out: M x N, overwritten; a stack if any operand is one. Operands of other element types are
            converted to its type first.
        alpha: Factor of the product.
        beta: Factor of C.
        options: Options of the plan.
        verify: Whether the product is checked.
        cpu_only: Whether the CPU computes all rows, whatever the options.
        reports: Whether plan and progress are sent while the product is computed.
        timed: Whether the GPU's copies and kernels are timed, which delays them a little; always
            with reports.
        row_step: Additional final rows of `out` for which a message is sent; 0 for no messages.
        b_key: Id of B as a stored matrix, which never changes, so that GPUs and nodes may keep it;
            None if B is not stored.
        device_set: The devices that may work at it; None for all.
    """

    job: str
    a: Operand
    b: Operand
    c: Operand | None
    out: Operand
    alpha: float = 1.0
    beta: float = 0.0
    options: PlanOptions = NO_OPTIONS
    verify: bool = False
    cpu_only: bool = False
    reports: bool = True
    timed: bool = False
    row_step: int = 0
    b_key: str | None = None
    device_set: DeviceSet | None = None

    @property
    def products(self) -> int:
        """How many products of matrices it is."""
        return 1 if self.out.stack is None else self.out.stack

    @property
    def terms(self) -> int:
        """M·N·K, of all products together."""
        return self.products * self.out.rows * self.out.columns * self.a.columns

    @property
    def is_empty(self) -> bool:
        """Whether A, B or the result has no element."""
        return not self.terms

    @property
    def is_small(self) -> bool:
        """Whether it takes at most milliseconds."""
        return 2 * self.terms <= SMALL_OPERATIONS

    @property
    def needs_one_thread(self) -> bool:
        """Whether a CPU uses a single thread for each product."""
        return is_small(self.out.rows, self.out.columns, self.a.columns, self.out.dtype)

    @property
    def size(self) -> float:
        """The cube root of M·N·K, of all products together."""
        return float(self.terms ** (1 / 3))

    def as_message(self) -> dict[str, Any]:
        """The request as a message. Operands become lists, which are encoded faster than tuples."""
        message = {name: getattr(self, name) for name in _FIELDS}
        message |= {name: message[name] and [*message[name]] for name in ("a", "b", "c", "out")}
        message |= {"type": "run", "options": None if self.options is NO_OPTIONS else self.options}
        return message

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> "RunRequest":
        """Read a request that `as_message` wrote."""
        found = {name: message[name] for name in _FIELDS}
        for name in ("a", "b", "c", "out"):
            found[name] = None if found[name] is None else Operand.read(found[name])
        options = found["options"]
        found["options"] = NO_OPTIONS if options is None else PlanOptions.read(options)
        if found["device_set"] is not None:
            found["device_set"] = frozenset(found["device_set"])
        return cls(**found)


_FIELDS: Final = tuple(field.name for field in fields(RunRequest))


def encode_message(message: Mapping[str, Any]) -> bytes:
    """The packet of a message. NaN and infinities, which JSON lacks, become null.

    Raises:
        MessageError: It does not fit a packet.
    """
    packet = to_json(message, inf_nan_mode="null")
    if len(packet) >= LONG_BYTES:
        packet = zlib.compress(packet)
    if len(packet) > PACKET_BYTES:
        limit = f"at most {PACKET_BYTES}"
        raise MessageError(f"message is {len(packet)} bytes, compressed; it must be {limit}")
    return packet


def decode_message(packet: bytes) -> dict[str, Any]:
    """The message of one packet.

    Raises:
        MessageError: The packet is not a JSON object with a type.
    """
    try:
        # JSON begins otherwise.
        content = zlib.decompress(packet) if packet[:1] == _COMPRESSED else packet
        message = from_json(content, allow_inf_nan=False)
    except (ValueError, zlib.error) as error:
        raise MessageError(f"not JSON: {packet[:100]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise MessageError(f"not a message: {packet[:100]!r}")
    return message
