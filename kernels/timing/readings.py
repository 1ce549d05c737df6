"""What the probes read off a GPU: figures, each with what it was measured at."""

import statistics
from dataclasses import dataclass


class Timed:
    """Something that was timed several times."""

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
        way: How it moves it: "copy", "cached", "padded"…
        step: What was varied: a stride, an offset, a width, a number of taps; in elements.
        moved_bytes: Bytes that a launch reads and writes for its result: no padding, and nothing
            that comes along with it.
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
        """1e9 moved bytes a second, at the median."""
        return self.moved_bytes / self.seconds / 1e9


@dataclass(frozen=True, slots=True)
class CycleReading:
    """Reads of a warp from a memory of its multiprocessor.

    Attributes:
        way: What is read and how: "stride", "multicast", "constant", "read-only".
        step: The stride, or the number of different words that the warp reads at once.
        cycles: Cycles of the multiprocessor for one read of one warp, when many are under way:
            median of all multiprocessors and launches.
        right: Whether every read brought what is there.
    """

    way: str
    step: int
    cycles: float
    right: bool


@dataclass(frozen=True, slots=True)
class RegisterReading(Timed):
    """A kernel that holds many values, compiled for so many blocks a multiprocessor.

    Attributes:
        blocks_per_sm: Blocks that its launch bounds promise room for.
        registers: Registers that a thread has.
        spill_bytes: Bytes that a thread stores to local memory for want of registers.
        run_seconds: Seconds of each launch; the work is the same for all.
        right: Whether the results were those of the kernel with the most registers.
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
        way: Kind of the host memory ("pageable", "registered", "pinned"), or the way between GPUs.
        direction: "in", "out" or "both" at once; between GPUs, from which to which.
        size_bytes: Bytes of one copy.
        copies: Copies at once: 2 for both ways.
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
        """1e9 bytes a second in all directions together, at the median."""
        return self.copies * self.size_bytes / self.seconds / 1e9
