"""The product to compute: its sizes, element type, operations and bytes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from wavetrim.scheduler.errors import ProblemError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

ITEM_BYTES: Final[dict[str, int]] = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
}
"""Bytes of an element, for each supported element type."""


ADDRESSABLE_BYTES: Final = 2**47
"""Most memory that a process can address: 47 bits on x86-64 and by default on ARM."""

Memory = Literal["pageable", "pinned"]
"""Kind of host memory in which the operands lie.

- pageable: any array, or a mapped file. Threads copy it through page-locked slabs.
- pinned: page-locked. The GPU reads and writes it itself, both ways at the same time.
"""

MEMORIES: Final[tuple[Memory, ...]] = get_args(Memory)


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """C[M,N] = A[M,K] B[K,N] with all three matrices of one element type.

    Attributes:
        m: Rows of A and C; as the others at least 1, unless it `may_be_empty`.
        n: Columns of B and C.
        k: Columns of A and rows of B.
        dtype: NumPy's name of the element type, one of `ITEM_BYTES`.
        memory: Kind of host memory of all three, one of `MEMORIES`.
        b_resident: Whether B is on the GPUs already, so that it is not copied in.
        may_be_empty: Whether sizes may be 0. Such a product is βC, and all of it the CPU's.

    Raises:
        ProblemError: A size is below 1, the element type is not one of `ITEM_BYTES`, or the
            memory is not one of `MEMORIES`.
    """

    m: int
    n: int
    k: int
    dtype: str = "float32"
    memory: Memory = "pageable"
    b_resident: bool = False
    may_be_empty: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k) < (0 if self.may_be_empty else 1):
            name = min(("m", "n", "k"), key=lambda name: int(getattr(self, name)))
            raise ProblemError(name, getattr(self, name), "at least 1")
        if self.dtype not in ITEM_BYTES:
            raise ProblemError("dtype", self.dtype, f"one of {', '.join(ITEM_BYTES)}")
        find_memory(self.memory)

    @property
    def is_empty(self) -> bool:
        """Whether A, B or C has no element."""
        return not (self.m and self.n and self.k)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    @property
    def flops(self) -> int:
        """Operations: one multiplication and one addition for each (m, n, k).

        Complex numbers count the same, although their two take eight operations on real numbers.
        """
        return 2 * self.m * self.n * self.k

    @property
    def a_row_bytes(self) -> int:
        """Bytes of one row of A."""
        return self.k * self.item_bytes

    @property
    def b_bytes(self) -> int:
        """Bytes of B."""
        return self.k * self.n * self.item_bytes

    @property
    def copied_b_bytes(self) -> int:
        """Bytes of B that a GPU copies in."""
        return 0 if self.b_resident else self.b_bytes

    @property
    def c_row_bytes(self) -> int:
        """Bytes of one row of C."""
        return self.n * self.item_bytes

    @property
    def operand_bytes(self) -> int:
        """Bytes of A, B and C together."""
        return self.m * (self.a_row_bytes + self.c_row_bytes) + self.b_bytes

    @property
    def copied_bytes(self) -> int:
        """Bytes that a GPU copies: A, C, and B unless it is resident."""
        return self.operand_bytes - self.b_bytes + self.copied_b_bytes

    def check_fits(self, host_bytes: int | None = None) -> None:
        """Refuse a product that no memory can hold.

        Args:
            host_bytes: Memory of the machine, which limits page-locked operands; None if it is not
                known. Pageable operands may be mapped files, larger than that.

        Raises:
            ProblemError: It does not fit; both figures are named.
        """
        most, whose = ADDRESSABLE_BYTES, "a process can address"
        if self.memory == "pinned" and host_bytes is not None:
            most, whose = min(most, host_bytes), "this machine has"
        if self.operand_bytes > most:
            taken, there = (f"{count / 2**30:,.1f} GiB" for count in (self.operand_bytes, most))
            limit = f"smaller: A, B and C take {taken}, and {whose} {there}"
            raise ProblemError("m, n, k", (self.m, self.n, self.k), limit)


def find_memory(name: str) -> Memory:
    """Check the name of a kind of memory.

    Raises:
        ProblemError: No kind of memory has that name.
    """
    for memory in MEMORIES:
        if memory == name:
            return memory
    raise ProblemError("memory", name, f"one of {', '.join(MEMORIES)}")


def name_dtype(dtype: "DTypeLike") -> str:
    """NumPy's name of an element type; `str` of anything else."""
    import numpy as np  # the command plans without

    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype)
