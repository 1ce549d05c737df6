"""What the model knows of one machine's CPU: its rates, and what is left of it beside a GPU."""

from dataclasses import dataclass
from math import log2
from typing import Final

from wavetrim.scheduler.problem import Memory

SHALLOW_K: Final = 256
DEEP_K: Final = 4096
"""Where the CPU part is bound by writing C, and by its arithmetic."""

NARROW: Final = 128
"""Up to so many columns, and as long a K, neither arithmetic nor writing C is all of a product."""

LEAST_COPYING: Final = 0.25
"""Share of the time in which copies hold up the CPU part at least: the first ones, which the GPU
waits for, are as fast as can be, however long its kernels take behind them."""

_WIDE_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class CpuRate:
    """The CPU path for one element type.

    Attributes:
        dtype: Element type.
        gflops: Rate of the arithmetic, with many rows and all threads.
        startup_rows: Rows' worth of time that the first row costs on top.
        call_seconds: Seconds to start and join the pool.
        row_quantum: Rows that the blocks round up to.
        source: Where the figures come from.
        element_seconds: Seconds that each element of C costs beside its arithmetic.
        write_seconds: Seconds that each takes at least, however short K is: memory must take it.
        vector_seconds: Seconds for each element of B where there is but one row; 0 if not measured.
        copy_columns: Columns' worth of arithmetic that it costs BLAS to read a row of A and copy it
            into its own layout: little beside many columns, and much beside few.
        narrow_seconds: Seconds for each product of two elements where neither N nor K is above
            NARROW, in place of arithmetic and elements; 0 if not measured. A must be read and C
            written at least.
    """

    dtype: str
    gflops: float
    startup_rows: float
    call_seconds: float
    row_quantum: int
    source: str
    element_seconds: float = 0.0
    write_seconds: float = 0.0
    vector_seconds: float = 0.0
    copy_columns: float = 48.0
    narrow_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CpuShare:
    """One way to share the CPU while the GPU is fed from one kind of memory.

    Attributes:
        memory: The kind of memory.
        threads: Threads that the CPU part uses then.
        copiers: Threads that share in each copy between pageable memory and page-locked slabs.
        stretch: How many times as long the CPU part's arithmetic takes as without the GPU while
            copies are under way.
        wide_stretch: The same of elements of 8 bytes.
        element_stretch: The same for what each element of C costs beside it.
        link_stretch: How many times as long the GPU part's copies take as without the CPU part,
            where N and K are DEEP_K or more.
        shallow_link_stretch: The same where one of them is so small that their harmonic mean is
            SHALLOW_K or less: then the CPU part wants more of the memory's rate.
        start_seconds: Seconds that the GPU part loses while the CPU part's threads wake up.
    """

    memory: Memory
    threads: int
    copiers: int
    stretch: float = 1.0
    wide_stretch: float = 1.0
    element_stretch: float = 1.0
    link_stretch: float = 1.0
    shallow_link_stretch: float = 1.0
    start_seconds: float = 0.0

    def find_stretch(self, item_bytes: int, copying: float) -> float:
        """How many times as long the CPU part's arithmetic takes.

        Args:
            item_bytes: Of an element.
            copying: Share of the time in which copies are under way.
        """
        stretch = self.wide_stretch if item_bytes == _WIDE_BYTES else self.stretch
        return 1 + (stretch - 1) * max(copying, LEAST_COPYING)

    def find_link_stretch(self, n: int, k: int) -> float:
        """How many times as long the GPU part's copies take.

        The CPU part reads K elements of A and writes N of C for each row, so few columns hold the
        copies up as a short K does.

        Args:
            n: Columns of C.
            k: Columns of A.
        """
        depth = 2 * n * k / (n + k)
        deep_share = log2(depth / SHALLOW_K) / log2(DEEP_K / SHALLOW_K)
        deep_share = min(1.0, max(0.0, deep_share))
        shallow, deep = self.shallow_link_stretch, self.link_stretch
        return deep_share * deep + (1 - deep_share) * shallow


@dataclass(frozen=True, slots=True)
class CpuModel:
    """The CPU of the machine.

    Attributes:
        threads: Threads the pool uses with the whole machine to itself.
        rates: One entry an element type.
        beside_gpu: At least one entry a kind of memory.
    """

    threads: int
    rates: tuple[CpuRate, ...]
    beside_gpu: tuple[CpuShare, ...]

    def list_shares(self, memory: Memory) -> tuple[CpuShare, ...]:
        """The ways to share it with a GPU that is fed from such memory."""
        return tuple(share for share in self.beside_gpu if share.memory == memory)
