"""Records the steps of a product as a command buffer."""

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import Call, CommandKind
from wavetrim.kernels.pipeline.commands.command_buffer import (
    BETWEEN,
    COMPUTE,
    IN,
    OUT,
    CommandBuffer,
    Store,
    Timed,
    pack_commands,
)
from wavetrim.kernels.pipeline.commands.exchange import ExchangeRank
from wavetrim.kernels.pipeline.step_layouts import StepLayout

_A, _B, _C = range(3)


def record_commands(
    steps: Sequence[StepLayout],
    launches: Sequence[Sequence[Call]],
    *,
    label: str,
    reads_c: bool,
    timed: Timed,
    rank: ExchangeRank | None = None,
) -> CommandBuffer:
    """Record the steps of a product.

    Args:
        steps: The steps, in order.
        launches: The calls of each step's launch.
        label: The kernel, for messages.
        reads_c: Whether first steps read C.
        timed: What is timed.
        rank: Rank of this GPU in the exchange of B; None to copy in all of it.
    """
    return _Recorder(steps, launches, reads_c=reads_c, timed=timed, rank=rank).record(label)


class _Recorder:
    """Records one buffer, each event before any wait for it."""

    def __init__(
        self,
        steps: Sequence[StepLayout],
        launches: Sequence[Sequence[Call]],
        *,
        reads_c: bool,
        timed: Timed,
        rank: ExchangeRank | None,
    ) -> None:
        self._steps, self._launches = steps, launches
        self._reads_c, self._timed, self._rank = reads_c, timed, rank
        self._rows: list[tuple[int, ...]] = []
        # The events after own pieces of B come first, so that other GPUs know their indices.
        self._pieces = count()
        self._first_event = 0 if rank is None else sum(one.step.loads_b for one in steps)
        self._numbers = count(self._first_event)
        self._loaded: list[int] = []  # event after each step's copies in
        self._computed: list[int] = []
        self._stored: dict[int, Store] = {}
        self._kernel_spans: list[tuple[int, int]] = []
        self._copy_spans: list[tuple[int, int]] = []
        # A single step overlaps with nothing, so its commands share a stream: an event between
        # streams takes some microseconds.
        self._is_single = len(steps) == 1
        self._queues = (COMPUTE,) * 4 if self._is_single else (IN, COMPUTE, OUT, BETWEEN)
        self._ends: list[int] = []

    def record(self, label: str) -> CommandBuffer:
        for index, layout in enumerate(self._steps):
            piece = self._load(layout)
            if self._rank is not None and piece is not None:
                self._ends.append(len(self._rows))
                self._ends.extend(self._exchange(layout, piece, self._rank))
            self._launch(index)
            self._ends.append(len(self._rows))
        stores = tuple(self._stored.values())
        whole = [(self._first_event, stores[-1].event)] if self._timed else []
        commands = pack_commands(self._rows)
        return CommandBuffer(
            label=label,
            commands=commands,
            ends=np.array(self._ends, np.int64),
            events=next(self._numbers),
            stores=stores,
            timed=self._timed,
            kernel_spans=np.array(self._kernel_spans, np.int32),
            copy_spans=np.array(self._copy_spans, np.int32),
            whole_span=np.array(whole, np.int32),
            memory=tuple(self._launches),
            address=commands.ctypes.data,
        )

    def _load(self, layout: StepLayout) -> int | None:
        """Record a step's copies in; returns the event after its own piece of B, if it has one."""
        step, queue = layout.step, self._queues[IN]
        piece = None
        reads_c = self._reads_c and step.first
        if step.follows >= 0:
            self._add(queue, CommandKind.WAIT, self._computed[step.follows])
        if reads_c and step.c_follows >= 0:
            self._add(queue, CommandKind.WAIT, self._stored[step.c_follows].event)
        begin = self._begin(queue)
        if step.loads_b and self._rank is not None:
            piece = self._load_piece(layout, self._rank)
        self._copy(CommandKind.COPY_IN, _A, step.rows, step.depth, layout.a)
        if step.loads_b and self._rank is None:
            self._copy(CommandKind.COPY_IN, _B, step.depth, step.columns, layout.b)
        if reads_c:
            self._copy(CommandKind.COPY_IN, _C, step.rows, step.columns, layout.c)
        self._loaded.append(self._mark_between(queue))
        self._end(self._copy_spans, begin, self._loaded[-1])
        return piece

    def _load_piece(self, layout: StepLayout, rank: ExchangeRank) -> int:
        """Record the copy in of this GPU's own piece of B; returns the event after it."""
        depth, event = layout.step.depth, next(self._pieces)
        own = rank.cut_piece(depth, rank.number)
        if own:
            rows = range(own.start - depth.start, own.stop - depth.start)
            part = layout.b.cut(rows, range(layout.b.columns))
            self._copy(CommandKind.COPY_IN, _B, own, layout.step.columns, part)
        self._add(self._queues[IN], CommandKind.RECORD, event)
        return event

    def _exchange(self, layout: StepLayout, piece: int, rank: ExchangeRank) -> Iterator[int]:
        """Record the copies of the other GPUs' pieces of B, and the kernel's wait for them.

        Yields the number of commands after each piece, where a turn ends: copies from one GPU run
        in the order in which they were enqueued, so all GPUs should be served alike.
        """
        depth, b, queue = layout.step.depth, layout.b, self._queues[BETWEEN]
        pitch_bytes = b.leading_dimension * b.item_bytes
        begin = self._begin(queue)
        for other in rank.others:
            if rows := rank.cut_piece(depth, other):
                target = b.pointer + (rows.start - depth.start) * pitch_bytes
                source = target - rank.addresses[rank.number] + rank.addresses[other]
                self._add(queue, CommandKind.WAIT_FOR_PEER, other, piece)
                row_bytes = (b.columns + b.padding) * b.item_bytes
                words = source, target, len(rows), row_bytes, pitch_bytes
                self._add(queue, CommandKind.COPY_BETWEEN, *words)
            yield len(self._rows)
        end = self._mark_between(queue)
        self._end(self._copy_spans, begin, end)
        if queue != self._queues[COMPUTE]:
            self._add(self._queues[COMPUTE], CommandKind.WAIT, end)

    def _launch(self, index: int) -> None:
        layout, queue = self._steps[index], self._queues[COMPUTE]
        step = layout.step
        if queue != self._queues[IN]:
            self._add(queue, CommandKind.WAIT, self._loaded[index])
        if step.c_follows >= 0:
            self._add(queue, CommandKind.WAIT, self._stored[step.c_follows].event)
        begin = self._begin(queue)
        for call in self._launches[index]:
            command = call.command
            assert command is not None, "launches without commands are not recorded"
            self._add(queue, command.kind, *command.words)
        self._computed.append(self._mark_between(queue))
        self._end(self._kernel_spans, begin, self._computed[-1])
        if step.last:
            self._store(index)

    def _store(self, index: int) -> None:
        layout, queue = self._steps[index], self._queues[OUT]
        step = layout.step
        if queue != self._queues[COMPUTE]:
            self._add(queue, CommandKind.WAIT, self._computed[index])
        begin = self._begin(queue)
        self._copy(CommandKind.COPY_OUT, _C, step.rows, step.columns, layout.c)
        end = self._mark(queue)
        self._stored[index] = Store(step, end, index)
        self._end(self._copy_spans, begin, end)

    def _copy(
        self, kind: CommandKind, operand: int, rows: range, columns: range, layout: Layout
    ) -> None:
        item_bytes = layout.item_bytes
        queue = self._queues[IN if kind == CommandKind.COPY_IN else OUT]
        pitch_bytes = layout.leading_dimension * item_bytes
        left_bytes, row_bytes = columns.start * item_bytes, len(columns) * item_bytes
        words = operand, rows.start, left_bytes, len(rows), row_bytes, layout.pointer, pitch_bytes
        self._add(queue, kind, *words)

    def _begin(self, queue: int) -> int:
        """Record the event before a span; -1 if the span is not timed."""
        is_first = self._timed and not self._rows
        return self._mark(queue) if is_first or self._timed == Timed.EACH else -1

    def _end(self, spans: list[tuple[int, int]], begin: int, end: int) -> None:
        """Store a span, if each is timed."""
        if self._timed == Timed.EACH:
            spans.append((begin, end))

    def _mark_between(self, queue: int) -> int:
        """Record the event after a step's copies in or its kernel; -1 if nothing needs it."""
        return self._mark(queue) if not self._is_single or self._timed == Timed.EACH else -1

    def _mark(self, queue: int) -> int:
        """Record the next event; returns its index."""
        event = next(self._numbers)
        self._add(queue, CommandKind.RECORD, event)
        return event

    def _add(self, queue: int, kind: CommandKind, *words: int) -> None:
        self._rows.append((kind, queue, *words))
