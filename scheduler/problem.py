"""The product to be computed: its sizes, its element type, what it costs to do and to move."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from wavetrim.scheduler.errors import ProblemError

ITEM_BYTES: Final[dict[str, int]] = {
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
}
"""Bytes of one element, for every element type the product can be asked for."""


Memory = Literal["pageable", "pinned"]
"""The host memory that the operands lie in.

- pageable: any array, or a mapped file. Threads copy it through page-locked slabs.
- pinned: page-locked; the GPU reads and writes it by itself, both ways at once.
"""

MEMORIES: Final[tuple[Memory, ...]] = get_args(Memory)


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """C[M,N] = A[M,K] B[K,N] with all three matrices of one element type.

    Attributes:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        dtype: NumPy's name of the element type, one of `ITEM_BYTES`.
        memory: Where all three lie on the host, one of `MEMORIES`.

    Raises:
        ProblemError: A size is below 1, the element type is not one of `ITEM_BYTES`, or the
            memory is not one of `MEMORIES`.
    """

    m: int
    n: int
    k: int
    dtype: str = "float32"
    memory: Memory = "pageable"

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            size = getattr(self, name)
            if size < 1:
                raise ProblemError(name, size, "at least 1")
        if self.dtype not in ITEM_BYTES:
            raise ProblemError("dtype", self.dtype, f"one of {', '.join(ITEM_BYTES)}")
        find_memory(self.memory)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    @property
    def flops(self) -> int:
        """Operations of the whole product: one multiplication and one addition per (m, n, k)."""
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
    def c_row_bytes(self) -> int:
        """Bytes of one row of C."""
        return self.n * self.item_bytes


def find_memory(name: str) -> Memory:
    """The kind of memory of that name.

    Raises:
        ProblemError: There is none.
    """
    for memory in MEMORIES:
        if memory == name:
            return memory
    raise ProblemError("memory", name, f"one of {', '.join(MEMORIES)}")
