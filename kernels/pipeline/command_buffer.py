"""Command buffers: a product's copies, launches and events, recorded once as data.

Steps of a product from page-locked memory need nothing of the host once they are enqueued. So C
submits them, many in one call (kernels/transfer/native/commands.c, docs/notes/launches.md). A
buffer serves any host addresses: its copies name operand, row and offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import Call, CommandKind
from wavetrim.kernels.pipeline.places import PlacedStep
from wavetrim.kernels.schedule.steps import Step

IN, COMPUTE, OUT = range(3)
"""The queues: copies in, kernels, copies out."""

_A, _B, _C = range(3)
_WORDS: Final = 7
_FIRST_EVENT: Final = 0


class Timed(IntEnum):
    """What lies between events whose times can be read."""

    NOTHING = 0
    WHOLE = 1
    EACH = 2
    """Each copy and kernel, which delays them by some microseconds."""


class Store(NamedTuple):
    """A step's copy out.

    Attributes:
        step: The step.
        event: Index of the event after it.
        number: Index of the step.
    """

    step: Step
    event: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class CommandBuffer:
    """The commands of a product. It equals only itself.

    Attributes:
        label: The kernel, for messages.
        commands: Kind, queue and words of each, in rows: all of a step before those of the next.
        ends: Number of commands until the end of each step.
        events: Number of events.
        stores: The copies out, in order.
        timed: What its events time.
        kernel_spans: Events around kernels, in pairs, if each is timed.
        copy_spans: Events around copies, likewise.
        whole_span: The first event and the last, if anything is timed.
        memory: What the commands point to, kept alive.
        address: Address of the first command.
    """

    label: str
    commands: NDArray[np.int64]
    ends: tuple[int, ...]
    events: int
    stores: tuple[Store, ...]
    timed: Timed
    kernel_spans: NDArray[np.int32]
    copy_spans: NDArray[np.int32]
    whole_span: NDArray[np.int32]
    memory: object
    address: int


def record_commands(
    steps: Sequence[PlacedStep],
    launches: Sequence[Sequence[Call]],
    *,
    label: str,
    reads_c: bool,
    timed: Timed,
) -> CommandBuffer:
    """Record the steps of a product.

    Args:
        steps: The steps, in order.
        launches: The calls of each step's launch.
        label: The kernel, for messages.
        reads_c: Whether first steps read C.
        timed: What is timed.
    """
    return _Recorder(steps, launches, reads_c=reads_c, timed=timed).record(label)


class _Recorder:
    """Records one buffer, each event before any wait for it."""

    def __init__(
        self,
        steps: Sequence[PlacedStep],
        launches: Sequence[Sequence[Call]],
        *,
        reads_c: bool,
        timed: Timed,
    ) -> None:
        self._steps, self._launches = steps, launches
        self._reads_c, self._timed = reads_c, timed
        self._rows: list[tuple[int, ...]] = []
        self._numbers = count()
        self._loaded: list[int] = []  # event after each step's copies in
        self._computed: list[int] = []
        self._stored: dict[int, Store] = {}
        self._kernel_spans: list[tuple[int, int]] = []
        self._copy_spans: list[tuple[int, int]] = []
        # A single step waits for nothing, so its commands share a stream: events between streams
        # take some microseconds each.
        self._queues = (IN, COMPUTE, OUT) if len(steps) > 1 else (COMPUTE,) * 3

    def record(self, label: str) -> CommandBuffer:
        ends = []
        for index, placed in enumerate(self._steps):
            self._load(placed)
            self._launch(index)
            ends.append(len(self._rows))
        stores = tuple(self._stored.values())
        whole = [(_FIRST_EVENT, stores[-1].event)] if self._timed else []
        commands = np.array(self._rows, np.int64)
        return CommandBuffer(
            label=label,
            commands=commands,
            ends=tuple(ends),
            events=next(self._numbers),
            stores=stores,
            timed=self._timed,
            kernel_spans=np.array(self._kernel_spans, np.int32),
            copy_spans=np.array(self._copy_spans, np.int32),
            whole_span=np.array(whole, np.int32),
            memory=tuple(self._launches),
            address=commands.ctypes.data,
        )

    def _load(self, placed: PlacedStep) -> None:
        step, queue = placed.step, self._queues[IN]
        if step.follows >= 0:
            self._add(queue, CommandKind.WAIT, self._computed[step.follows])
        reads_c = self._reads_c and step.first
        if reads_c and step.c_follows >= 0:
            self._add(queue, CommandKind.WAIT, self._stored[step.c_follows].event)
        begin = self._begin(queue)
        if step.a_depth:
            self._copy(CommandKind.COPY_IN, _A, step.rows, step.a_depth, placed.arriving)
        if step.loads_b:
            self._copy(CommandKind.COPY_IN, _B, step.depth, step.columns, placed.b)
        if reads_c:
            self._copy(CommandKind.COPY_IN, _C, step.rows, step.columns, placed.c)
        self._loaded.append(self._mark_between(queue))
        self._end(self._copy_spans, begin, self._loaded[-1])

    def _launch(self, index: int) -> None:
        placed, queue = self._steps[index], self._queues[COMPUTE]
        step = placed.step
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
        placed, queue = self._steps[index], self._queues[OUT]
        step = placed.step
        if queue != self._queues[COMPUTE]:
            self._add(queue, CommandKind.WAIT, self._computed[index])
        begin = self._begin(queue)
        self._copy(CommandKind.COPY_OUT, _C, step.rows, step.columns, placed.c)
        end = self._mark(queue)
        self._stored[index] = Store(step, end, index)
        self._end(self._copy_spans, begin, end)

    def _copy(
        self, kind: CommandKind, operand: int, rows: range, columns: range, place: Layout
    ) -> None:
        item_bytes = place.item_bytes
        queue = self._queues[IN if kind == CommandKind.COPY_IN else OUT]
        pitch_bytes = place.leading_dimension * item_bytes
        left_bytes, row_bytes = columns.start * item_bytes, len(columns) * item_bytes
        words = operand, rows.start, left_bytes, len(rows), row_bytes, place.pointer, pitch_bytes
        self._add(queue, kind, *words)

    def _begin(self, queue: int) -> int:
        """Record the event before a span; -1 if that is not timed."""
        is_first = self._timed and not self._rows
        return self._mark(queue) if is_first or self._timed == Timed.EACH else -1

    def _end(self, spans: list[tuple[int, int]], begin: int, end: int) -> None:
        """Note a span, if each is timed."""
        if self._timed == Timed.EACH:
            spans.append((begin, end))

    def _mark_between(self, queue: int) -> int:
        """Record the event after a step's copies in or its kernel; -1 if nothing needs it."""
        is_awaited = len(self._steps) > 1
        return self._mark(queue) if is_awaited or self._timed == Timed.EACH else -1

    def _mark(self, queue: int) -> int:
        """Record the next event; returns its index."""
        event = next(self._numbers)
        self._add(queue, CommandKind.RECORD, event)
        return event

    def _add(self, queue: int, kind: CommandKind, *words: int) -> None:
        self._rows.append((kind, queue, *words, *(0,) * (_WORDS - len(words))))
