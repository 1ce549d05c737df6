"""The CPU of a machine: its rates alone, and in splits with a GPU."""

from dataclasses import dataclass, replace
from typing import Final

from wavetrim.native.tuned import PACKING_WEIGHT
from wavetrim.scheduler.problem import Memory

NARROW: Final = 128
"""Largest N and K of a narrow product, which is bound neither by arithmetic nor by writing C: twice
those of the product that calibration measures."""


@dataclass(frozen=True, slots=True)
class CpuRate:
    """The CPU path for one element type.

    Attributes:
        dtype: Element type.
        gflops: Rate of the arithmetic, with many rows and all threads.
        startup_rows: Additional cost of the first row, in rows.
        call_seconds: Seconds to start and join the pool.
        row_quantum: Blocks have a multiple of this number of rows.
        source: Where the figures come from.
        element_seconds: Seconds of an element of C beyond the caches, in addition to its
            arithmetic.
        write_seconds: Least seconds of such an element for any K: the time to write it.
        vector_seconds: Seconds of an element of B in products of one row; 0 if not measured.
        copy_columns: Cost for BLAS to pack a row of an A beyond the caches, in columns of
            arithmetic.
        narrow_seconds: Seconds of a multiply-add in narrow products (neither N nor K above NARROW),
            in place of arithmetic and elements; 0 if not measured.
        alone_seconds: Seconds of a call that one thread computes alone, without its arithmetic.
        alone_gflops: Rate of one thread alone; 0 if it was not measured.
        read_seconds: Seconds for one thread to read an element of B, beside its arithmetic.
        cached_element_seconds: As `element_seconds`, within the caches.
        cached_copy_columns: As `copy_columns`, within the caches.
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
    alone_seconds: float = 20e-6
    alone_gflops: float = 0.0
    read_seconds: float = 0.0
    cached_element_seconds: float = 0.0
    cached_copy_columns: float = PACKING_WEIGHT

    def find_gflops(self, taking: int, threads: int) -> float:
        """Rate of some threads of a pool: one is faster alone, as cores share their units.

        Args:
            taking: Threads that compute.
            threads: All threads.
        """
        return min(self.gflops, taking * (self.alone_gflops or self.gflops / threads))


@dataclass(frozen=True, slots=True)
class CpuShare:
    """One way to divide the CPU's threads between its part and the copies for the GPU part.

    Attributes:
        memory: The kind of memory of the operands.
        threads: Threads of the CPU part.
        copiers: Threads of each copy between pageable memory and page-locked slabs.
        stretch: Contention: factor on the time of the CPU part's arithmetic during copies.
        link_stretch: Factor on the time of the GPU part's copies while the CPU part computes.
        memory_stretch: Factor on the CPU part's time to read A and write C during copies.
        write_stretch: The same on its time to write a C past the caches, in this kind of memory.
        write_link_stretch: As `link_stretch`, while the CPU part does nothing but that.
        start_seconds: Seconds that the GPU part loses while the CPU part's threads wake up.
        late_seconds: Seconds by which the CPU part ends later than by its own clock: it begins once
            the GPU's work is enqueued, or its first staged copies are under way.
    """

    memory: Memory
    threads: int
    copiers: int
    stretch: float = 1.0
    link_stretch: float = 1.0
    start_seconds: float = 0.0
    memory_stretch: float = 1.0
    late_seconds: float = 0.0
    write_stretch: float = 1.0
    write_link_stretch: float = 1.0

    def slow_links(self, writing: float) -> "CpuShare":
        """The share where the CPU part writes to memory for such a share of its time, 0…1."""
        stretch = 1 + (self.write_link_stretch - 1) * writing
        return replace(self, link_stretch=max(self.link_stretch, stretch))

    def slow_memory(self, factor: float) -> "CpuShare":
        """The share where what memory bounds takes `factor` times as long, on both sides."""
        return replace(
            self,
            link_stretch=factor * self.link_stretch,
            memory_stretch=factor * self.memory_stretch,
            write_stretch=factor * self.write_stretch,
        )


@dataclass(frozen=True, slots=True)
class CpuModel:
    """The CPU of the machine.

    Attributes:
        threads: Threads of the pool without a GPU part.
        rates: One entry for each element type.
        beside_gpu: At least one entry for each kind of memory.
        cache_bytes: Size of the caches that cores do not share; 0 if unknown. What exceeds them
            counts as read from memory, because other programs use shared caches, too.
    """

    threads: int
    rates: tuple[CpuRate, ...]
    beside_gpu: tuple[CpuShare, ...]
    cache_bytes: int = 0

    def find_uncached_share(self, matrix_bytes: int) -> float:
        """Share of a matrix that the caches do not hold, 0…1."""
        return max(0.0, 1 - self.cache_bytes / matrix_bytes)

    def list_shares(self, memory: Memory) -> tuple[CpuShare, ...]:
        """The ways to share it if the operands lie in this kind of memory."""
        return tuple(share for share in self.beside_gpu if share.memory == memory)
