"""A product whose operands lie in host memory, and what copies of their parts need to know."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from kernels.catalog import KernelSpec
from kernels.memory import Matrix
from kernels.operands import Layout
from kernels.pinned import is_pinned
from kernels.sharing import SharedRows


@dataclass(frozen=True, slots=True)
class HostProduct:
    """The arguments of one product: C ← αA·B + βC, all three in host memory.

    Attributes:
        spec: The kernel.
        a: A[M,K].
        b: B[K,N].
        c: C[M,N].
        alpha: Factor of A·B, not 0.
        beta: Factor of the old C.
        progress: Called with the rows of C that are newly finished.
        cancelled: Asked whether to stop.
        sms: Multiprocessors that launches are held to; None for all.
        shared: Where the rows come from, if another device takes some; None if all are ours.
        copiers: Threads that share in a copy; None for all that there are.
        begun: Called when the first copies are on their way.
    """

    spec: KernelSpec
    a: Matrix
    b: Matrix
    c: Matrix
    alpha: float
    beta: float
    progress: Callable[[int], None] | None
    cancelled: Callable[[], bool] | None
    sms: int | None = None
    shared: SharedRows | None = None
    copiers: int | None = None
    begun: Callable[[], None] | None = None

    @property
    def total_bytes(self) -> int:
        """Bytes of A, B and C."""
        return self.a.nbytes + self.b.nbytes + self.c.nbytes

    def describe_operands(self) -> tuple["HostOperand", "HostOperand", "HostOperand"]:
        """A, B and C as copies take them: asked once for all of their parts."""
        return _describe(self.a), _describe(self.b), _describe(self.c)

    def cut(self, rows: range) -> "HostProduct":
        """The part that computes some of the rows, which are all ours."""
        part = slice(rows.start, rows.stop)
        return replace(self, a=self.a[part], c=self.c[part], shared=None)


@dataclass(frozen=True, slots=True)
class HostOperand:
    """One of the three matrices.

    Attributes:
        matrix: The matrix.
        address: Where its first element lies.
        pitch_bytes: From one row to the next.
        is_pinned: Whether copies need no staging: page-locked rows of adjacent elements.
    """

    matrix: Matrix
    address: int
    pitch_bytes: int
    is_pinned: bool


class Passage(NamedTuple):
    """A part of an operand and its place on the device, to be copied either way."""

    operand: HostOperand
    rows: range
    columns: range
    place: Layout

    def find_address(self) -> int:
        """Where the first element of the part lies in host memory, if its rows are adjacent."""
        operand = self.operand
        left_bytes = self.columns.start * self.place.item_bytes
        return operand.address + self.rows.start * operand.pitch_bytes + left_bytes

    def view(self) -> Matrix:
        """The part in host memory."""
        rows, columns = self.rows, self.columns
        return self.operand.matrix[rows.start : rows.stop, columns.start : columns.stop]


def _describe(matrix: Matrix) -> HostOperand:
    return HostOperand(matrix, matrix.ctypes.data, matrix.strides[0], is_pinned(matrix))
