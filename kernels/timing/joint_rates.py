"""Rates of the links of GPUs that all copy at once, and of copies between GPUs.

The lower quartile of the runs counts: other work on the host may slow most copies down, but makes
none faster.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavetrim.kernels.device import allow_access
from wavetrim.kernels.errors import translate_failures
from wavetrim.kernels.transfer.pinned import pin_matrix


@dataclass(frozen=True, slots=True)
class JointRates:
    """Bytes a second of all links together: to the GPUs, from them, and both ways at once."""

    in_bytes_per_second: float
    out_bytes_per_second: float
    both_bytes_per_second: float


def measure_joint_rates(indices: Sequence[int], size_bytes: int, runs: int) -> JointRates:
    """Time copies between page-locked memory and all of these GPUs at once.

    Args:
        indices: The GPUs. One that is listed twice copies twice over its link.
        size_bytes: Bytes of each GPU's copies, each way.
        runs: Timed runs, after one warm-up.

    Raises:
        DeviceFailure: A CUDA error, or not enough memory.
    """
    with translate_failures():
        links = [_Link(index, size_bytes) for index in indices]
        into = _time(links, runs, "in")
        out = _time(links, runs, "out")
        both = _time(links, runs, "in", "out")
    total_bytes = len(links) * size_bytes
    return JointRates(total_bytes / into, total_bytes / out, 2 * total_bytes / both)


def measure_peer_rate(first: int, second: int, size_bytes: int, runs: int) -> float:
    """Bytes a second from each of two GPUs to the other while both copy; 0 without peer access.

    Args:
        first: Index of one GPU.
        second: Index of the other.
        size_bytes: Bytes of each copy.
        runs: Timed runs, after one warm-up.

    Raises:
        DeviceFailure: A CUDA error, or not enough memory.
    """
    with translate_failures():
        if not (allow_access(first, second) and allow_access(second, first)):
            return 0.0
        ends = [_Link(first, size_bytes), _Link(second, size_bytes)]

        ends[0].source = ends[1].outgoing.data.ptr, second
        ends[1].source = ends[0].outgoing.data.ptr, first
        return size_bytes / _time(ends, runs, "peer")


class _Link:
    """One GPU: memory at both ends of its link, and a stream for each way.

    Attributes:
        outgoing: Memory that copies "out" and its peer read.
        source: Address and GPU of the memory that its "peer" copies read.
    """

    def __init__(self, index: int, size_bytes: int) -> None:
        import cupy

        self._index, self._size_bytes = index, size_bytes
        self.source = 0, index
        self._device = cupy.cuda.Device(index)
        self._sent, self._received = (pin_matrix(1, size_bytes, np.uint8) for _ in range(2))
        self._sent.fill(1)
        with self._device:
            self._incoming: Any = cupy.empty(size_bytes, np.uint8)
            self.outgoing: Any = cupy.zeros(size_bytes, np.uint8)
            self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
            self._device.synchronize()

    def start(self, way: str) -> None:
        """Enqueue a copy "in" to the GPU, "out" from it, or from its "peer"."""
        from cupy.cuda import runtime

        size, arriving = self._size_bytes, self._incoming.data.ptr
        into, out = (stream.ptr for stream in self._streams)
        with self._device:
            if way == "in":
                sent = self._sent.ctypes.data
                runtime.memcpyAsync(arriving, sent, size, runtime.memcpyHostToDevice, into)
            elif way == "out":
                ends = self._received.ctypes.data, self.outgoing.data.ptr
                runtime.memcpyAsync(*ends, size, runtime.memcpyDeviceToHost, out)
            else:
                runtime.memcpyPeerAsync(arriving, self._index, *self.source, size, into)

    def finish(self) -> None:
        """Wait for its copies."""
        with self._device:
            for stream in self._streams:
                stream.synchronize()


def _time(links: Sequence[_Link], runs: int, *ways: str) -> float:
    """Seconds until all links have made their copies at once: the lower quartile of the runs."""
    seconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        for link in links:
            for way in ways:
                link.start(way)
        for link in links:
            link.finish()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds[1:])[runs // 4]
