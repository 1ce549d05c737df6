"""Copies between the caller's memory and the device: direct or staged.

The device reads and writes page-locked memory itself. Other memory goes through a stage
(stages.py), whose threads copy in both directions while the calling thread launches kernels.
"""

from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.events import EventPool, find_runtime
from wavetrim.kernels.transfer.copies import DirectCopy, OperandPart, PendingCopy
from wavetrim.kernels.transfer.direct import Transfers
from wavetrim.kernels.transfer.native_stage import NativeStage
from wavetrim.kernels.transfer.stages import CopyRequest, PageableStage, Stage
from wavetrim.native.pool import ThreadPool


class Staging:
    """The copies of a pipeline: a stream for each direction, and a stage once one is needed.

    Args:
        pool: Copy threads; None to use CUDA's pageable copies.
        events: Pool of events.

    Attributes:
        in_stream: CuPy's stream of the transfers to the device.
        out_stream: That of the transfers from the device.
    """

    def __init__(self, pool: ThreadPool | None, events: EventPool) -> None:
        import cupy

        self.in_stream = cupy.cuda.Stream(non_blocking=True)
        self.out_stream = cupy.cuda.Stream(non_blocking=True)
        self._pool = pool
        self._events = events
        self._stage: Stage | None = None
        self._inward, self._outward = Transfers(self.in_stream), Transfers(self.out_stream)
        runtime = find_runtime()
        self._record, self._wait = runtime.eventRecord, runtime.streamWaitEvent
        self._awake = False
        self._streams = False

    def prepare(self, *, awake: bool, streams: bool) -> None:
        """Set how the copies of the next product are made.

        Args:
            awake: Whether waiting for transfers polls all the time.
            streams: Whether staged copies to the device bypass the caches.
        """
        self._awake = awake
        self._streams = streams

    def copy_in(self, parts: Sequence[OperandPart], after: Any) -> list[PendingCopy]:
        """Copy matrices to the device.

        Args:
            parts: The matrices; those in page-locked memory form one copy.
            after: CUDA event to wait for; None for none.
        """
        direct = [part for part in parts if part.operand.is_pinned]
        copies: list[PendingCopy] = []
        if direct:
            start = self._begin(self.in_stream, after)
            for part in direct:
                operand, layout = part.operand, part.layout
                self._inward.copy_in(part.find_address(), operand.pitch_bytes, layout)
            copies.append(self._end(self.in_stream, start, outwards=False))
        if len(direct) < len(parts):
            staged = (part for part in parts if not part.operand.is_pinned)
            copies += [self._stage_copy(part, after, inwards=True) for part in staged]
        return copies

    def copy_out(self, part: OperandPart, after: Any) -> PendingCopy:
        """Copy a matrix from the device after the CUDA event `after`."""
        operand, layout = part.operand, part.layout
        if not operand.is_pinned:
            return self._stage_copy(part, after, inwards=False)
        start = self._begin(self.out_stream, after)
        self._outward.copy_out(layout, part.find_address(), operand.pitch_bytes)
        return self._end(self.out_stream, start, outwards=True)

    def finish(self) -> None:
        """Wait for all requests of the stage, and raise the first error."""
        if self._stage is not None:
            self._stage.finish()

    def abandon(self) -> None:
        """Drop requests that have not begun, and wait for the others."""
        if self._stage is not None:
            self._stage.abandon()

    def close(self) -> None:
        """Free the stage's slabs."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None

    def _begin(self, stream: Any, after: Any) -> Any:
        """Enqueue the wait for `after` and the start event of transfers, which is returned."""
        if after is not None:
            self._wait(stream.ptr, after.ptr)
        start = self._events.take()
        self._record(start.ptr, stream.ptr)
        return start

    def _end(self, stream: Any, start: Any, *, outwards: bool) -> DirectCopy:
        """Enqueue the end event of transfers."""
        end = self._events.take()
        self._record(end.ptr, stream.ptr)
        return DirectCopy(start, end, outwards=outwards, awake=self._awake)

    def _stage_copy(self, part: OperandPart, after: Any, *, inwards: bool) -> PendingCopy:
        if self._stage is None:  # opened on first use, because locking slabs takes time
            self._stage = self._open_stage()
        start, end = self._events.take(), self._events.take()
        return self._stage.send(
            CopyRequest(part.view(), part.layout, inwards, after, start, end, self._streams)
        )

    def _open_stage(self) -> Stage:
        if self._pool is None:
            return PageableStage(self._inward, self._outward)
        return NativeStage(self._pool, self.in_stream, self.out_stream)
