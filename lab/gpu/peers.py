"""Copies between two GPUs: by CUDA, by a kernel, and staged through host memory."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from wavetrim.kernels.errors import translate_failures
from wavetrim.kernels.gemm.launch import load_functions
from wavetrim.kernels.timing.readings import LinkReading
from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.lab.gpu.catalog import STRIDED_COPY
from wavetrim.native.plain import Matrix

_STAGE_BYTES: Final = 4 << 20
_ALREADY_ENABLED: Final = 704  # cudaErrorPeerAccessAlreadyEnabled
_THREADS: Final = 256


def can_access_peer(first: int, second: int) -> bool:
    """Whether each of two GPUs can read and write the other's memory directly."""
    from cupy.cuda import runtime

    pairs = (first, second), (second, first)
    with translate_failures():
        return all(runtime.deviceCanAccessPeer(*pair) for pair in pairs)


def measure_peers(
    first: int, second: int, cache_dir: Path, sizes: Sequence[int], runs: int
) -> tuple[LinkReading, ...]:
    """Time copies of each size from one GPU to the other, back, and both ways at once.

    Args:
        first: Index of one GPU.
        second: Index of the other.
        cache_dir: Folder of compiled kernels.
        sizes: Bytes of a copy, multiples of 4.
        runs: Timed runs of each, after one warm-up.

    Returns:
        Readings "staged" (through pinned memory, in and out overlapping) and "copied" (CUDA's copy
        between GPUs). With peer access also "read by a kernel" (on the receiving GPU). Directions
        are "0 → 1", "1 → 0" and "both".
    """
    direct = can_access_peer(first, second)
    readings = []
    with translate_failures(), _let_access(first, second) if direct else contextlib.nullcontext():
        ends = tuple(_End(index, max(sizes), cache_dir) for index in (first, second))
        ways: dict[str, _Enqueue] = {"staged": _stage, "copied": _copy}
        if direct:
            ways["read by a kernel"] = _pull
        pairs = (ends, ends[::-1])
        for way, enqueue in ways.items():
            for size in sizes:
                for flows in (pairs[:1], pairs[1:], pairs):
                    seconds = _time_flows(enqueue, flows, size, runs)
                    right = all(sink.holds(source.sent[: size // 4]) for source, sink in flows)
                    arrow = "both" if len(flows) == 2 else f"{flows[0][0]} → {flows[0][1]}"
                    readings.append(LinkReading(way, arrow, size, len(flows), seconds, right))
    return tuple(readings)


class _End:
    """One GPU: data to send, memory to receive, and streams."""

    def __init__(self, index: int, size_bytes: int, cache_dir: Path) -> None:
        import cupy

        self.index = index
        self.device = cupy.cuda.Device(index)
        self.sent = np.random.default_rng(index).random(size_bytes // 4, np.float32)
        self.slab = pin_matrix(1, size_bytes, np.uint8)
        with self.device:
            self.outgoing: Any = cupy.asarray(self.sent)
            self.incoming: Any = cupy.empty_like(self.outgoing)
            self.sending = cupy.cuda.Stream(non_blocking=True)
            self.receiving = cupy.cuda.Stream(non_blocking=True)
            (self.kernel,) = load_functions(STRIDED_COPY, cache_dir)
            self.device.synchronize()

    def __str__(self) -> str:
        return str(self.index)

    def holds(self, values: Matrix) -> bool:
        """Whether the received data begins with these values."""
        import cupy

        with self.device:
            return np.array_equal(cupy.asnumpy(self.incoming[: values.size]), values)


_Flows = Sequence[tuple[_End, ...]]
"""Pairs of source and sink, copied at the same time."""

_Enqueue = Callable[[_Flows, int], None]
"""Enqueues a copy of some bytes along each flow."""


@contextlib.contextmanager
def _let_access(first: int, second: int) -> Iterator[None]:
    """Enable peer access in both directions, and restore the former state in the end."""
    from cupy.cuda import Device, runtime

    with contextlib.ExitStack() as undoing:
        for index, peer in ((first, second), (second, first)):
            with Device(index):
                try:
                    runtime.deviceEnablePeerAccess(peer)
                except runtime.CUDARuntimeError as error:
                    if error.status != _ALREADY_ENABLED:
                        raise
                else:
                    undoing.callback(_end_access, index, peer)
        yield


def _end_access(index: int, peer: int) -> None:
    from cupy.cuda import Device, runtime

    with Device(index):
        runtime.deviceSynchronize()
        runtime.deviceDisablePeerAccess(peer)


def _time_flows(enqueue: _Enqueue, flows: _Flows, size_bytes: int, runs: int) -> tuple[float, ...]:
    """Wall seconds of each run but the first; clears received data before."""
    for _, sink in flows:
        with sink.device:
            sink.incoming.fill(np.nan)
            sink.device.synchronize()
    seconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        enqueue(flows, size_bytes)
        for source, sink in flows:
            for end, stream in ((source, source.sending), (sink, sink.receiving)):
                with end.device:
                    stream.synchronize()
        seconds.append(time.perf_counter() - began)
    return tuple(seconds[1:])


def _copy(flows: _Flows, size_bytes: int) -> None:
    from cupy.cuda import runtime

    for source, sink in flows:
        with source.device:
            ends = sink.incoming.data.ptr, sink.index, source.outgoing.data.ptr, source.index
            runtime.memcpyPeerAsync(*ends, size_bytes, source.sending.ptr)


def _stage(flows: _Flows, size_bytes: int) -> None:
    """Copy in pieces through pinned memory: a piece leaves while the one before it arrives."""
    for first in range(0, size_bytes, _STAGE_BYTES):
        for source, sink in flows:
            _move_stage(source, sink, first, min(_STAGE_BYTES, size_bytes - first))


def _move_stage(source: _End, sink: _End, first: int, length: int) -> None:
    from cupy.cuda import Event, runtime

    staged = source.slab.ctypes.data + first
    with source.device:
        ends = staged, source.outgoing.data.ptr + first
        runtime.memcpyAsync(*ends, length, runtime.memcpyDeviceToHost, source.sending.ptr)
        left = Event(disable_timing=True)
        left.record(source.sending)
    with sink.device:
        sink.receiving.wait_event(left)
        ends = sink.incoming.data.ptr + first, staged
        runtime.memcpyAsync(*ends, length, runtime.memcpyHostToDevice, sink.receiving.ptr)


def _pull(flows: _Flows, size_bytes: int) -> None:
    """Copy by a kernel on each sink, which reads the memory of the source."""
    elements = size_bytes // 4
    for source, sink in flows:
        arguments = (
            *(np.uint64(sink.incoming.data.ptr), np.uint64(source.outgoing.data.ptr)),
            *(np.int64(elements), np.int64(1)),
        )
        with sink.device, sink.receiving:
            sink.kernel((-(-elements // _THREADS),), (_THREADS,), arguments)
