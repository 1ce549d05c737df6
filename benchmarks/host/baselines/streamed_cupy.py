"""CuPy as a competent user writes it: row panels on three streams, page-locked memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.common.operands import Matrix, Operands, copy_rows
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.baselines.libraries import empty_pools

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
    """All of B first, then panels of A; copies in, products and copies out overlap."""

    name = "cupy-streams"

    def __init__(self) -> None:
        self._lanes: list[_Lane] = []
        self._b: Any = None
        self._b_host: Matrix | None = None
        self._rows = 0

    def prepare(self, operands: Operands, until: float) -> bool:
        """Allocate streams and buffers."""
        import cupy

        del until
        m, n, k = operands.shape
        self._rows = rows = choose_panel_rows(m)
        self._b = cupy.empty((k, n), operands.dtype)
        self._b_host = _pin(k, n, operands)
        self._lanes = [
            _Lane(
                stream=cupy.cuda.Stream(non_blocking=True),
                a=cupy.empty((rows, k), operands.dtype),
                c=cupy.empty((rows, n), operands.dtype),
                a_host=_pin(rows, k, operands),
                c_host=_pin(rows, n, operands),
            )
            for _ in range(_LANES)
        ]
        cupy.cuda.get_current_stream().synchronize()
        return True

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        arrived = self._send_b(operands.b)
        for lane in self._lanes:
            lane.stream.wait_event(arrived)
        for place, rows in enumerate(cut_panels(operands.shape[0], self._rows)):
            self._send_panel(self._lanes[place % len(self._lanes)], operands, rows)
        for lane in self._lanes:
            lane.finish(operands.c)
        return operands.c

    def release(self) -> None:
        """Give back streams and buffers."""
        self._lanes, self._b, self._b_host = [], None, None
        empty_pools()

    def _send_b(self, b: Matrix) -> Any:
        """Enqueue the copy of B, in parts if it is staged; returns the event after it."""
        stream = self._lanes[0].stream
        if self._b_host is None:
            self._b.set(b, stream=stream)
        else:
            for rows in cut_panels(b.shape[0], -(-b.shape[0] // _B_PARTS)):
                copy_rows(self._b_host[rows], b[rows], _COPY_THREADS)
                self._b[rows].set(self._b_host[rows], stream=stream)
        return stream.record()

    def _send_panel(self, lane: _Lane, operands: Operands, rows: slice) -> None:
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
            cupy.dot(a, self._b, out=c)
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
