"""CuPy as a competent user writes it: row panels on three streams, page-locked memory."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.common.operands import Matrix, Operands, copy_rows
from benchmarks.host.baselines.baseline import Baseline

_LANES: Final = 3
_PANELS: Final = 16
_LEAST_ROWS: Final = 256
_B_PARTS: Final = 8
_COPY_THREADS: Final = 4
"""Streams; panels, and the least rows of one; parts of a staged B; threads of a staged copy.
Chosen."""


@dataclass(slots=True)
class _Lane:
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


class StreamedCupy(Baseline):
    """All of B first, then panels of A; copies in, products and copies out overlap.

    Buffers come from CuPy's pools at each product, so that products of many shapes take turns.
    """

    name = "cupy-streams"

    def __init__(self) -> None:
        importlib.import_module("cupy")  # not to find only later that it is missing
        self._streams: list[Any] = []

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        import cupy

        if not self._streams:
            self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(_LANES)]
        m, n, k = operands.shape
        rows = choose_panel_rows(m)
        b, b_host = cupy.empty((k, n), operands.dtype), _pin(k, n, operands)
        lanes = [
            _Lane(
                stream=stream,
                a=cupy.empty((rows, k), operands.dtype),
                c=cupy.empty((rows, n), operands.dtype),
                a_host=_pin(rows, k, operands),
                c_host=_pin(rows, n, operands),
            )
            for stream in self._streams
        ]
        cupy.cuda.get_current_stream().synchronize()
        arrived = _send_b(lanes[0].stream, operands.b, b, b_host)
        for lane in lanes:
            lane.stream.wait_event(arrived)
        for place, panel in enumerate(cut_panels(m, rows)):
            _send_panel(lanes[place % len(lanes)], operands, b, panel)
        for lane in lanes:
            lane.finish(operands.c)
        return operands.c


def _send_b(stream: Any, source: Matrix, b: Any, b_host: Matrix | None) -> Any:
    """Enqueue the copy of B, in parts if it is staged; returns the event after it."""
    if b_host is None:
        b.set(source, stream=stream)
    else:
        for rows in cut_panels(source.shape[0], -(-source.shape[0] // _B_PARTS)):
            copy_rows(b_host[rows], source[rows], _COPY_THREADS)
            b[rows].set(b_host[rows], stream=stream)
    return stream.record()


def _send_panel(lane: _Lane, operands: Operands, b: Any, rows: slice) -> None:
    """Enqueue one panel: its rows of A in, the product, its rows of C out."""
    import cupy

    count = rows.stop - rows.start
    source, target = operands.a[rows], operands.c[rows]
    if lane.a_host is not None and lane.c_host is not None:
        lane.finish(operands.c)
        copy_rows(lane.a_host[:count], source, _COPY_THREADS)
        source, target = lane.a_host[:count], lane.c_host[:count]
        lane.staged = rows
    a, c = lane.a[:count], lane.c[:count]
    with lane.stream:
        a.set(source, stream=lane.stream)
        cupy.dot(a, b, out=c)
        c.get(stream=lane.stream, out=target, blocking=False)


def choose_panel_rows(m: int) -> int:
    """Rows of a panel: about a sixteenth, in whole tiles."""
    tiles = -(-m // _PANELS // _LEAST_ROWS)
    return min(m, max(1, tiles) * _LEAST_ROWS)


def cut_panels(rows: int, size: int) -> Iterator[slice]:
    """Ranges of `size` rows, the last one shorter."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def _pin(rows: int, columns: int, operands: Operands) -> Matrix | None:
    """A page-locked buffer; None if the operands themselves are page-locked."""
    if operands.memory == "pinned":
        return None
    import cupyx

    return np.asarray(cupyx.empty_pinned((rows, columns), operands.dtype))
