"""Copies between the caller's memory and the device: direct or staged.

The device reads and writes page-locked memory itself. Other memory goes through a stage
(native_stage.py), whose threads copy in both directions while the calling thread launches kernels.
Without a C library the driver copies it, in the calling thread.
"""

from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.events import EventPool, find_runtime
from wavetrim.kernels.transfer.copies import DirectCopy, OperandPart, PendingCopy
from wavetrim.kernels.transfer.native_stage import CopyRequest, NativeStage
from wavetrim.kernels.transfer.transfers import Transfers
from wavetrim.native.pool import ThreadPool


class Staging:
    """The copies of a pipeline: a stream for each direction, and a stage once one is needed.

    Args:
        pool: Copy threads; None if there is no C library.
        events: Pool of events.

    Attributes:
        awake: Whether waiting for transfers polls all the time.
    """

    def __init__(self, pool: ThreadPool | None, events: EventPool) -> None:
        self._pool, self._events = pool, events
        self._stage: NativeStage | None = None
        self._inward, self._outward = Transfers(inwards=True), Transfers(inwards=False)
        runtime = find_runtime()
        self._record, self._wait = runtime.eventRecord, runtime.streamWaitEvent
        self.awake = False

    @property
    def in_stream(self) -> Any:
        """CuPy's stream of the transfers to the device."""
        return self._inward.stream

    @property
    def out_stream(self) -> Any:
        """CuPy's stream of the transfers from the device."""
        return self._outward.stream

    def copy_in(self, parts: Sequence[OperandPart], after: Any) -> list[PendingCopy]:
        """Copy matrices to the device.

        Args:
            parts: The matrices; those in page-locked memory form one copy.
            after: CUDA event to wait for; None for none.
        """
        direct = [part for part in parts if part.operand.is_pinned]
        copies: list[PendingCopy] = []
        if direct:
            copies.append(self._copy_directly(self._inward, direct, after))
        staged = (part for part in parts if not part.operand.is_pinned)
        return copies + [self._copy_staged(self._inward, part, after) for part in staged]

    def copy_out(self, part: OperandPart, after: Any) -> PendingCopy:
        """Copy a matrix from the device after the CUDA event `after`."""
        if part.operand.is_pinned:
            return self._copy_directly(self._outward, [part], after)
        return self._copy_staged(self._outward, part, after)

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

    def _copy_directly(
        self, transfers: Transfers, parts: Sequence[OperandPart], after: Any
    ) -> DirectCopy:
        """Enqueue the transfers of matrices in page-locked memory."""
        start = self._begin(transfers, after)
        for part in parts:
            transfers.enqueue(part.layout, part.find_address(), part.operand.pitch_bytes)
        end = self._mark(transfers)
        return DirectCopy(start, end, outwards=not transfers.inwards, awake=self.awake)

    def _copy_staged(self, transfers: Transfers, part: OperandPart, after: Any) -> PendingCopy:
        """Copy a matrix in pageable memory."""
        if self._pool is None:
            start = self._begin(transfers, after)
            transfers.copy_pageable(part.view(), part.layout)
            return DirectCopy(start, self._mark(transfers), outwards=False, awake=False)
        if self._stage is None:  # opened on first use, because locking slabs takes time
            self._stage = NativeStage(self._pool, self.in_stream, self.out_stream)
        start, end = self._events.take(), self._events.take()
        request = CopyRequest(part.view(), part.layout, transfers.inwards, after, start, end)
        return self._stage.send(request)

    def _begin(self, transfers: Transfers, after: Any) -> Any:
        """Enqueue the wait for `after` and the event before transfers, which is returned."""
        if after is not None:
            self._wait(transfers.stream.ptr, after.ptr)
        return self._mark(transfers)

    def _mark(self, transfers: Transfers) -> Any:
        """Record the next event."""
        event = self._events.take()
        self._record(event.ptr, transfers.stream.ptr)
        return event
