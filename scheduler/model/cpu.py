"""What the model knows of one machine's CPU: its rates, and what a GPU part leaves of them."""

from dataclasses import dataclass
from typing import Final

from wavetrim.native.tuned import PACKING_WEIGHT
from wavetrim.scheduler.problem import Memory

NARROW: Final = 128
"""Most columns and largest K of a narrow product: neither arithmetic nor writing C bounds it."""


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
        element_seconds: Seconds that each element of C costs in addition to its arithmetic.
        write_seconds: Seconds that each takes at least, however short K is: memory must take it.
        vector_seconds: Seconds for each element of B where there is but one row; 0 if not measured.
        copy_columns: Columns' worth of arithmetic that it costs BLAS to read a row of A and copy it
            into its own layout: little for many columns, much for few.
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
    copy_columns: float = PACKING_WEIGHT
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
        link_stretch: How many times as long the GPU part's copies take as without the CPU part.
        start_seconds: Seconds that the GPU part loses while the CPU part's threads wake up.
    """

    memory: Memory
    threads: int
    copiers: int
    stretch: float = 1.0
    link_stretch: float = 1.0
    start_seconds: float = 0.0


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
