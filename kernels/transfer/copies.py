"""What is copied between host and device, and copies under way."""

from typing import Any, NamedTuple, Protocol

from wavetrim.kernels.events import await_event, has_passed
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.transfer.pinned import Matrix, is_locked
from wavetrim.native.library import find_address


class HostOperand(NamedTuple):
    """A, B or C in host memory.

    Attributes:
        matrix: The matrix.
        address: Address of its first element.
        pitch_bytes: Row stride in bytes.
        is_pinned: Whether copies need no staging: page-locked rows of adjacent elements.
    """

    matrix: Matrix
    address: int
    pitch_bytes: int
    is_pinned: bool


class OperandPart(NamedTuple):
    """A part of an operand in host memory and its layout on the device, to be copied in or out."""

    operand: HostOperand
    rows: range
    columns: range
    layout: Layout

    def find_address(self) -> int:
        """Address of the part's first element in host memory, for rows of adjacent elements."""
        operand = self.operand
        left_bytes = self.columns.start * self.layout.item_bytes
        return operand.address + self.rows.start * operand.pitch_bytes + left_bytes

    def view(self) -> Matrix:
        """The part in host memory."""
        rows, columns = self.rows, self.columns
        return self.operand.matrix[rows.start : rows.stop, columns.start : columns.stop]


def describe_operand(matrix: Matrix) -> HostOperand:
    """Address and kind of memory of a matrix."""
    address = find_address(matrix)
    return HostOperand(matrix, address, matrix.strides[0], is_locked(matrix, address))


class PendingCopy(Protocol):
    """A copy under way.

    To the device it is done when all transfers are enqueued, to the host when all bytes have
    arrived.
    """

    @property
    def start(self) -> Any:
        """CuPy event before its transfers."""

    @property
    def end(self) -> Any:
        """CuPy event after its transfers, recorded once it is done."""

    def done(self) -> bool:
        """Whether `result` would return at once."""

    def result(self, *, awake: bool = False) -> None:
        """Wait until it is done, and raise its error, or an earlier one that stopped the stage.

        Args:
            awake: Whether to poll all the time, which occupies a core.
        """


class DirectCopy:
    """A copy whose transfers are all enqueued.

    Args:
        start: Event before the transfers.
        end: Event after the transfers.
        outwards: Whether the copy is done only when `end` has passed.
        awake: Whether waiting always polls.
    """

    __slots__ = ("_awake", "_outwards", "end", "start")

    def __init__(self, start: Any, end: Any, *, outwards: bool, awake: bool) -> None:
        self.start = start
        self.end = end
        self._outwards = outwards
        self._awake = awake

    def done(self) -> bool:
        """As `PendingCopy` says."""
        return not self._outwards or has_passed(self.end)

    def result(self, *, awake: bool = False) -> None:
        """As `PendingCopy` says."""
        if self._outwards:
            await_event(self.end, awake=awake or self._awake)
