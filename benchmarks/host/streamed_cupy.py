"""CuPy as a competent user writes it: row panels on three streams, page-locked memory.

On several GPUs each multiplies its part of the rows, driven by its own thread.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from benchmarks.common.operands import Matrix, Operands, copy_rows, cut_rows

# All chosen.
_STREAMS: Final = 3
_PANELS: Final = 16
_LEAST_ROWS: Final = 256  # of a panel
_B_PARTS: Final = 8  # in which a pageable B is copied
_COPY_THREADS: Final = 4  # of a copy within host memory


@dataclass(slots=True)
class _BufferedStream:
    """A stream, its buffers on the GPU, and page-locked buffers if the operands are pageable."""

    stream: Any
    a: Any
    c: Any
    a_host: Matrix | None = None
    c_host: Matrix | None = None
    staged: slice | None = None

    def finish(self, c: Matrix) -> None:
        """Wait for the last panel, and copy it into C if it is staged."""
        self.stream.synchronize()
        if self.staged is not None and self.c_host is not None:
            rows = self.staged
            copy_rows(c[rows], self.c_host[: rows.stop - rows.start], _COPY_THREADS)
        self.staged = None


class StreamedCupy:
    """All of B first, then panels of A; copies in, products and copies out overlap.

    Each product takes its buffers from CuPy's pools, because shapes take turns.
    """

    def __init__(self) -> None:
        self._streams: list[Any] = []

    def multiply(self, operands: Operands) -> None:
        """A·B into C."""
        import cupy

        if not self._streams:
            self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(_STREAMS)]
        m, n, k = operands.shape
        rows = choose_panel_rows(m)
        b, b_host = cupy.empty((k, n), operands.dtype), _pin(k, n, operands)
        streams = [
            _BufferedStream(
                stream=stream,
                a=cupy.empty((rows, k), operands.dtype),
                c=cupy.empty((rows, n), operands.dtype),
                a_host=_pin(rows, k, operands),
                c_host=_pin(rows, n, operands),
            )
            for stream in self._streams
        ]
        cupy.cuda.get_current_stream().synchronize()
        arrived = _send_b(streams[0].stream, operands.b, b, b_host)
        for one in streams:
            one.stream.wait_event(arrived)
        for index, panel in enumerate(cut_rows(m, rows)):
            _send_panel(streams[index % len(streams)], operands, b, panel)
        for one in streams:
            one.finish(operands.c)


class SeveralCupy:
    """`StreamedCupy` on each of the first GPUs, with all of B on each."""

    def __init__(self, gpus: int) -> None:
        self._streamed = [StreamedCupy() for _ in range(gpus)]
        self._threads = ThreadPoolExecutor(gpus)

    def multiply(self, operands: Operands) -> None:
        """A·B into C."""
        m = operands.shape[0]
        parts = [
            replace(operands, a=operands.a[rows], c=operands.c[rows])
            for rows in cut_rows(m, -(-m // len(self._streamed)))
        ]
        list(self._threads.map(self._multiply, range(len(parts)), parts))

    def _multiply(self, device: int, part: Operands) -> None:
        from cupy.cuda import Device

        with Device(device):
            self._streamed[device].multiply(part)


def _send_b(stream: Any, source: Matrix, b: Any, b_host: Matrix | None) -> Any:
    """Enqueue the copy of B, in parts if it is staged; returns the event after it."""
    if b_host is None:
        b.set(source, stream=stream)
    else:
        for rows in cut_rows(source.shape[0], -(-source.shape[0] // _B_PARTS)):
            copy_rows(b_host[rows], source[rows], _COPY_THREADS)
            b[rows].set(b_host[rows], stream=stream)
    return stream.record()


def _send_panel(buffered: _BufferedStream, operands: Operands, b: Any, rows: slice) -> None:
    """Enqueue one panel: its rows of A in, the product, its rows of C out."""
    import cupy

    count = rows.stop - rows.start
    source, target = operands.a[rows], operands.c[rows]
    if buffered.a_host is not None and buffered.c_host is not None:
        buffered.finish(operands.c)
        copy_rows(buffered.a_host[:count], source, _COPY_THREADS)
        source, target = buffered.a_host[:count], buffered.c_host[:count]
        buffered.staged = rows
    a, c = buffered.a[:count], buffered.c[:count]
    with buffered.stream:
        a.set(source, stream=buffered.stream)
        cupy.dot(a, b, out=c)
        c.get(stream=buffered.stream, out=target, blocking=False)


def choose_panel_rows(m: int) -> int:
    """Rows of a panel: about a sixteenth, in whole tiles."""
    tiles = -(-m // _PANELS // _LEAST_ROWS)
    return min(m, max(1, tiles) * _LEAST_ROWS)


def _pin(rows: int, columns: int, operands: Operands) -> Matrix | None:
    """A page-locked buffer; None if the operands themselves are page-locked."""
    if operands.memory == "pinned":
        return None
    import cupyx

    return np.asarray(cupyx.empty_pinned((rows, columns), operands.dtype))
