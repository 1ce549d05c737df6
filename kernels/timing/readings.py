"""Results of measurements on a GPU, each with its conditions."""

import statistics
from dataclasses import dataclass


class Timed:
    """A measurement with several timed runs."""

    __slots__ = ()

    run_seconds: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Median of the runs."""
        return statistics.median(self.run_seconds)


@dataclass(frozen=True, slots=True)
class MemoryReading(Timed):
    """Launches of a kernel that moves memory.

    Attributes:
        way: How it moves memory: "copy", "cached", "padded"…
        step: The varied quantity in elements: a stride, an offset, a width, a number of taps.
        moved_bytes: Bytes that a launch reads and writes for its result, without padding and other
            bytes of the same cache lines.
        run_seconds: Seconds of each launch.
        right: Whether every byte of the result was right.
    """

    way: str
    step: int
    moved_bytes: int
    run_seconds: tuple[float, ...]
    right: bool

    @property
    def gbytes_per_second(self) -> float:
        """Rate in 1e9 bytes a second, at the median."""
        return self.moved_bytes / self.seconds / 1e9


@dataclass(frozen=True, slots=True)
class CycleReading:
    """Reads of a warp from a memory of its multiprocessor.

    Attributes:
        way: What is read and how: "stride", "multicast", "constant", "read-only".
        step: The stride, or the number of different words that the warp reads at once.
        cycles: Clock cycles for one read of one warp, with many reads in flight: median over
            multiprocessors and launches.
        right: Whether every value read was right.
    """

    way: str
    step: int
    cycles: float
    right: bool


@dataclass(frozen=True, slots=True)
class RegisterReading(Timed):
    """A kernel with many live values, compiled for a number of blocks a multiprocessor.

    Attributes:
        blocks_per_sm: Blocks a multiprocessor in its launch bounds.
        registers: Registers of a thread.
        spill_bytes: Bytes of registers spilled to local memory.
        run_seconds: Seconds of each launch; the work is the same for all.
        right: Whether the results equal those of the kernel with the most registers.
    """

    blocks_per_sm: int
    registers: int
    spill_bytes: int
    run_seconds: tuple[float, ...]
    right: bool


@dataclass(frozen=True, slots=True)
class LinkReading(Timed):
    """Copies over a link: between host and GPU, or between two GPUs.

    Attributes:
        way: Kind of host memory ("pageable", "registered", "pinned"), or method between GPUs.
        direction: "in", "out" or "both"; between GPUs "0 → 1" or "both".
        size_bytes: Bytes of one copy.
        copies: Simultaneous copies: 2 for "both".
        run_seconds: Wall seconds of each run, from the call to the last byte.
        right: Whether every byte arrived.
    """

    way: str
    direction: str
    size_bytes: int
    copies: int
    run_seconds: tuple[float, ...]
    right: bool

    @property
    def gbytes_per_second(self) -> float:
        """Rate in 1e9 bytes a second, all directions together, at the median."""
        return self.copies * self.size_bytes / self.seconds / 1e9
