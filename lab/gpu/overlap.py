"""Concurrency on a GPU: copies with kernels, and kernels with kernels."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wavetrim.kernels.timing.links import allocate_memory
from wavetrim.kernels.timing.readings import Timed
from wavetrim.lab.gpu.catalog import SPIN
from wavetrim.lab.gpu.stopwatch import Stopwatch
from wavetrim.native.plain import Matrix

_SMALL_KERNEL_SECONDS: Final = 1e-3


@dataclass(frozen=True, slots=True)
class StreamReading(Timed):
    """The same work on a number of streams.

    Attributes:
        streams: Number of streams.
        run_seconds: Wall seconds of each run.
        right: Whether every byte came back right.
    """

    streams: int
    run_seconds: tuple[float, ...]
    right: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """Copy in, kernel and copy out of data in chunks: each part alone, and all on streams.

    Attributes:
        size_bytes: Bytes of all data.
        chunks: Number of equal chunks.
        in_seconds: Copies in alone.
        kernel_seconds: Kernels alone.
        out_seconds: Copies out alone.
        readings: All parts together, by number of streams; with one stream nothing overlaps.
    """

    size_bytes: int
    chunks: int
    in_seconds: float
    kernel_seconds: float
    out_seconds: float
    readings: tuple[StreamReading, ...]

    @property
    def serial_seconds(self) -> float:
        """The sum of the parts."""
        return self.in_seconds + self.kernel_seconds + self.out_seconds

    @property
    def least_seconds(self) -> float:
        """Lower bound: the slowest part without a pause, and one chunk of the two others."""
        parts = self.in_seconds, self.kernel_seconds, self.out_seconds
        return max(parts) + (sum(parts) - max(parts)) / self.chunks


@dataclass(frozen=True, slots=True)
class LaunchReading:
    """Launches of small kernels.

    Attributes:
        kernels: Number of kernels, each of one block and about a millisecond.
        enqueue_seconds: Until the last launch call returns: median of the runs.
        one_stream_seconds: Until all are done in one stream.
        many_streams_seconds: Until all are done with a stream for each.
    """

    kernels: int
    enqueue_seconds: float
    one_stream_seconds: float
    many_streams_seconds: float


def measure_overlap(
    watch: Stopwatch, size_bytes: int, chunks: int, streams: Sequence[int], runs: int
) -> Timeline:
    """Copy in, compute and copy out pinned memory in chunks, on each number of streams.

    The kernel takes about as long as the copy in and fills the GPU, so that kernels do not overlap.

    Args:
        watch: Times launches on the GPU.
        size_bytes: Bytes to copy in and out; a multiple of `chunks`.
        chunks: Number of chunks.
        streams: Numbers of streams.
        runs: Timed runs of each, after one warm-up.
    """
    with (
        watch.use_device(),
        allocate_memory("pinned", size_bytes) as source,
        allocate_memory("pinned", size_bytes) as target,
    ):
        source[:] = np.random.default_rng(0).integers(0, 256, size_bytes, np.uint8)
        work = _ChunkedWork(watch, source, target, chunks)
        in_seconds = _find_median(lambda: work.run(1, copies_in=True), runs)
        work.cycles = max(1, int(in_seconds / chunks * watch.find_clock_hertz()))
        kernel_seconds = _find_median(lambda: work.run(1, computes=True), runs)
        out_seconds = _find_median(lambda: work.run(1, copies_out=True), runs)
        readings = tuple(work.measure(count, runs) for count in streams)
    return Timeline(size_bytes, chunks, in_seconds, kernel_seconds, out_seconds, readings)


class _ChunkedWork:
    """Pinned memory, as much device memory, and a kernel of some cycles for each chunk."""

    def __init__(self, watch: Stopwatch, source: Matrix, target: Matrix, chunks: int) -> None:
        import cupy

        self._watch = watch
        self._source, self._target = source, target
        self._held = cupy.zeros(source.size, np.uint8)
        self._chunk_bytes = source.size // chunks
        self._chunks = chunks
        self._streams: list[Any] = []
        self.cycles = 0
        watch.load(SPIN)
        cupy.cuda.Device().synchronize()

    def measure(self, streams: int, runs: int) -> StreamReading:
        """Time all three parts together, and check the copied bytes."""
        self._held.fill(0)
        self._held.device.synchronize()
        self._target[:] = 0
        seconds = tuple(
            self.run(streams, copies_in=True, computes=True, copies_out=True)
            for _ in range(runs + 1)
        )[1:]
        return StreamReading(streams, seconds, bool((self._target == self._source).all()))

    def run(
        self,
        streams: int,
        *,
        copies_in: bool = False,
        computes: bool = False,
        copies_out: bool = False,
    ) -> float:
        """Wall seconds of the selected parts, with chunk c in stream c mod `streams`."""
        from cupy.cuda import Stream, runtime

        while len(self._streams) < streams:
            self._streams.append(Stream(non_blocking=True))
        began = time.perf_counter()
        for chunk in range(self._chunks):
            stream = self._streams[chunk % streams]
            skipped = chunk * self._chunk_bytes
            held = self._held.data.ptr + skipped
            if copies_in:
                ends = held, self._source.ctypes.data + skipped
                runtime.memcpyAsync(
                    *ends, self._chunk_bytes, runtime.memcpyHostToDevice, stream.ptr
                )
            if computes:
                self._watch.spin(self.cycles, stream=stream)
            if copies_out:
                ends = self._target.ctypes.data + skipped, held
                runtime.memcpyAsync(
                    *ends, self._chunk_bytes, runtime.memcpyDeviceToHost, stream.ptr
                )
        for stream in self._streams[:streams]:
            stream.synchronize()
        return time.perf_counter() - began


def measure_kernels_at_once(
    watch: Stopwatch, counts: Sequence[int], runs: int
) -> tuple[LaunchReading, ...]:
    """Time small kernels in one stream, and in as many streams as kernels."""
    from cupy.cuda import Stream

    readings = []
    with watch.use_device():
        cycles = int(_SMALL_KERNEL_SECONDS * watch.find_clock_hertz())
        streams = [Stream(non_blocking=True) for _ in range(max(counts))]

        def launch(used: list[Any]) -> tuple[float, float]:
            """Seconds until the last launch returns, and until all kernels are done."""
            began = time.perf_counter()
            for stream in used:
                watch.spin(cycles, blocks=1, stream=stream)
            enqueued = time.perf_counter() - began
            for stream in used:
                stream.synchronize()
            return enqueued, time.perf_counter() - began

        launch(streams)
        for count in counts:
            one = [launch(streams[:1] * count) for _ in range(runs)]
            many = [launch(streams[:count]) for _ in range(runs)]
            readings.append(
                LaunchReading(
                    count,
                    statistics.median(enqueued for enqueued, _ in one),
                    statistics.median(done for _, done in one),
                    statistics.median(done for _, done in many),
                )
            )
    return tuple(readings)


def _find_median(measure: Callable[[], float], runs: int) -> float:
    """Median of the runs, after one warm-up."""
    measure()
    return statistics.median(measure() for _ in range(runs))
