"""Commands: a product's copies, launches and events, recorded once as data.

C submits many of them in one call (kernels/transfer/native/commands.c, docs/notes/memory.md).
Commands serve operands at any address: a copy names operand, row and offset. Operands in pageable
memory are staged: threads copy them, and the submitting thread waits for them where a kernel does.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import numpy as np

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import CommandKind, PreparedLaunch
from wavetrim.kernels.pipeline.command_buffer import (
    NOT_STAGED,
    CommandBuffer,
    Staged,
    Store,
    Timed,
)
from wavetrim.kernels.pipeline.exchange import ExchangeRank
from wavetrim.kernels.pipeline.prepared_steps import StepLayout

_IN, _COMPUTE, _OUT, _BETWEEN = range(4)
"""The queues: copies in, kernels, copies out, copies from other GPUs."""

_A, _B, _C = range(3)

_SIZE: Final = 11
"""Numbers of a command: kind, queue and words, as in kernels/transfer/native/commands.c."""


class Recorder:
    """Records the steps of a product, each event before any wait for it.

    Args:
        steps: The steps, in order.
        launches: The launch of each.
        reads_c: Whether first steps read C.
        timed: What is timed.
        staged: Which operands are staged.
        rank: Rank of this GPU in the exchange of B; None to copy in all of it.
    """

    def __init__(
        self,
        steps: Sequence[StepLayout],
        launches: Sequence[PreparedLaunch],
        *,
        reads_c: bool = False,
        timed: Timed = Timed.NOTHING,
        staged: Staged = NOT_STAGED,
        rank: ExchangeRank | None = None,
    ) -> None:
        self._steps, self._launches = steps, launches
        self._reads_c, self._timed, self._rank = reads_c, timed, rank
        self._staged, self._is_staged = staged, any(staged)
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
        # streams takes some microseconds. Staged copies have streams of their own.
        self._is_single = len(steps) == 1 and not self._is_staged
        self._queues = (_COMPUTE,) * 4 if self._is_single else (_IN, _COMPUTE, _OUT, _BETWEEN)
        self._ends: list[int] = []

    def record(self, label: str) -> CommandBuffer:
        """The commands; `label` names the kernel in messages."""
        if self._is_staged:
            self._load_ahead(0)
            self._ends.append(len(self._rows))
        for index, layout in enumerate(self._steps):
            if self._is_staged:
                self._load_ahead(index)
            else:
                piece = self._load(layout)
                if self._rank is not None and piece is not None:
                    self._ends.append(len(self._rows))
                    self._ends.extend(self._exchange(layout, piece, self._rank))
            self._launch(index)
            self._ends.append(len(self._rows))
        return self._finish(label, next(reversed(self._stored.values())).event)

    def record_copy(self, layout: Layout) -> CommandBuffer:
        """The commands that copy in all of B, without a product."""
        rows, columns = range(layout.rows), range(layout.columns)
        self._copy(CommandKind.COPY_IN, _B, rows, columns, layout)
        end = self._mark(self._queues[_IN])
        self._ends.append(len(self._rows))
        return self._finish("copy of B", end)

    def _finish(self, label: str, end: int) -> CommandBuffer:
        """What was recorded; `end` is its last event."""
        whole = [(self._first_event, end)] if self._timed else []
        commands = np.array([(*row, *(0,) * (_SIZE - len(row))) for row in self._rows], np.int64)
        return CommandBuffer(
            label=label,
            commands=commands,
            ends=np.array(self._ends, np.int64),
            events=next(self._numbers),
            stores=tuple(self._stored.values()),
            end=end,
            is_staged=self._is_staged,
            timed=self._timed,
            kernel_spans=np.array(self._kernel_spans, np.int32),
            copy_spans=np.array(self._copy_spans, np.int32),
            whole_span=np.array(whole, np.int32),
            memory=tuple(self._launches),
            address=commands.ctypes.data,
        )

    def _load_ahead(self, index: int) -> None:
        """Record the copies in of a step, and of later ones whose buffers are free by then.

        So threads that stage find work while the submitting thread waits for the step's copies.
        """
        for layout in self._steps[len(self._loaded) :]:
            step, is_ahead = layout.step, len(self._loaded) > index
            # The submitting thread would wait until the earlier C has arrived.
            awaits_c = self._reads_c and step.first and step.c_follows >= 0
            if step.follows >= index or (is_ahead and awaits_c):
                return
            self._load(layout)

    def _load(self, layout: StepLayout) -> int | None:
        """Record a step's copies in; returns the event after its own piece of B, if it has one."""
        step, queue = layout.step, self._queues[_IN]
        piece = None
        reads_c = self._reads_c and step.first
        if step.follows >= 0:
            self._add(queue, CommandKind.WAIT, self._computed[step.follows])
        if reads_c and step.c_follows >= 0:
            self._add(queue, CommandKind.WAIT, self._stored[step.c_follows].event)
        begin = self._begin(queue)
        if step.loads_b and self._rank is not None:
            piece = self._load_piece(layout, self._rank)
        if step.a_depth:
            self._copy(CommandKind.COPY_IN, _A, step.rows, step.a_depth, layout.a_in)
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
        self._add(self._queues[_IN], CommandKind.RECORD, event)
        return event

    def _exchange(self, layout: StepLayout, piece: int, rank: ExchangeRank) -> Iterator[int]:
        """Record the copies of the other GPUs' pieces of B, and the kernel's wait for them.

        Yields the number of commands after each piece, where a batch ends: copies from one GPU run
        in the order in which they were enqueued, so all GPUs should be served alike.
        """
        depth, b, queue = layout.step.depth, layout.b, self._queues[_BETWEEN]
        pitch_bytes = b.leading_dimension * b.item_bytes
        begin = self._begin(queue)
        for other in rank.others:
            if rows := rank.cut_piece(depth, other):
                target = b.pointer + (rows.start - depth.start) * pitch_bytes
                source = target - rank.addresses[rank.number] + rank.addresses[other]
                self._add(queue, CommandKind.WAIT_FOR_PEER, other, piece)
                row_bytes = (b.columns + b.padding) * b.item_bytes
                words = source, target, len(rows), row_bytes, pitch_bytes, pitch_bytes
                self._add(queue, CommandKind.COPY_BETWEEN, *words)
            yield len(self._rows)
        end = self._mark_between(queue)
        self._end(self._copy_spans, begin, end)
        if queue != self._queues[_COMPUTE]:
            self._add(self._queues[_COMPUTE], CommandKind.WAIT, end)

    def _launch(self, index: int) -> None:
        layout, queue = self._steps[index], self._queues[_COMPUTE]
        step = layout.step
        if queue != self._queues[_IN]:
            self._add(queue, CommandKind.WAIT, self._loaded[index])
        if step.c_follows >= 0:
            self._add(queue, CommandKind.WAIT, self._stored[step.c_follows].event)
        begin = self._begin(queue)
        for command in self._launches[index].commands:
            self._add(queue, command.kind, *command.words)
        self._computed.append(self._mark_between(queue))
        self._end(self._kernel_spans, begin, self._computed[-1])
        if step.last:
            self._store(index)

    def _store(self, index: int) -> None:
        layout, queue = self._steps[index], self._queues[_OUT]
        step = layout.step
        if queue != self._queues[_COMPUTE]:
            self._add(queue, CommandKind.WAIT, self._computed[index])
        begin = self._begin(queue)
        self._copy(CommandKind.COPY_OUT, _C, step.rows, step.columns, layout.c)
        end = self._mark(queue)
        self._stored[index] = Store(step, end, len(self._ends))
        self._end(self._copy_spans, begin, end)

    def _copy(
        self, kind: CommandKind, operand: int, rows: range, columns: range, layout: Layout
    ) -> None:
        item_bytes = layout.item_bytes
        inwards = kind == CommandKind.COPY_IN
        queue = self._queues[_IN if inwards else _OUT]
        target = layout.pointer, layout.leading_dimension * item_bytes
        if self._staged[operand]:
            kind = CommandKind.STAGE_IN if inwards else CommandKind.STAGE_OUT
            part = rows.start, columns.start, len(rows), len(columns)
            self._add(queue, kind, operand, *part, *target, layout.padding * item_bytes, item_bytes)
            return
        left_bytes, row_bytes = columns.start * item_bytes, len(columns) * item_bytes
        self._add(queue, kind, operand, rows.start, left_bytes, len(rows), row_bytes, *target)

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
