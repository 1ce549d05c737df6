"""The commands of a relay: how a part of each copy crosses its link.

Each copy from or to host memory is divided among the link of the GPU that computes and those of its
relays. A relay's part crosses its link into a slot of its memory, and goes on from GPU to GPU; the
other way likewise. Slots are used in turn, so both halves of the way are busy at the same time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Final, NamedTuple

import numpy as np

from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import CommandKind
from wavetrim.kernels.pipeline.commands.command_buffer import (
    BETWEEN,
    COMPUTE,
    IN,
    OUT,
    CommandBuffer,
    Timed,
    pack_commands,
)

_GATHER: Final = COMPUTE
"""The queue of copies from the GPU that computes: a relay has no kernels."""

SLOT_BYTES: Final = 8 << 20
"""Size of a slot. Chosen: with slots of 2, 4, 8 and 16 MiB 131072x64x4096 reaches 1.68, 1.79, 1.90
and 1.92 times the rate of one link on two H100s (f07421d7); smaller slots begin earlier."""

SLOTS: Final = 8
"""Slots for each direction. Chosen: 4 reach 1.86 times that rate (f07421d7)."""

LEAST_BYTES: Final = 1 << 20
"""Least copy that is divided; chosen, as a copy through a slot needs six commands more."""


class _Block(NamedTuple):
    """Rows that pass through one slot."""

    operand: int
    first_row: int
    rows: int
    left_bytes: int
    row_bytes: int
    padding_bytes: int
    pitch_bytes: int
    pointer: int

    def list_host_words(self, slot: int) -> tuple[int, ...]:
        """Words of the copy between host memory and a slot."""
        rows = self.first_row, self.left_bytes, self.rows, self.row_bytes
        return (self.operand, *rows, slot, self.pitch_bytes)

    def list_peer_words(self, source: int, target: int) -> tuple[int, ...]:
        """Words of the copy between the GPUs. With their padding, whole rows are one piece."""
        row_bytes = self.row_bytes + self.padding_bytes
        return source, target, self.rows, row_bytes, self.pitch_bytes


@dataclass(slots=True)
class _Slot:
    """A slot, and the event after which it is free; -1 if it was not used yet."""

    pointer: int
    free: int = -1


class RelayCommands:
    """Records a relay's commands for one product, in turns with those of the GPU that computes.

    Args:
        slots: Address of the relay's slots, first those for copies in, then those for copies out.
    """

    def __init__(self, slots: int) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._ends: list[int] = []
        self._events = 0
        starts = [slots + number * SLOT_BYTES for number in range(2 * SLOTS)]
        self._in_slots = cycle([_Slot(start) for start in starts[:SLOTS]])
        self._out_slots = cycle([_Slot(start) for start in starts[SLOTS:]])
        self._loaded = -1
        self._mark(IN)  # the begin of its work

    def load(
        self, operand: int, rows: range, columns: range, place: Layout, freed: Sequence[int]
    ) -> None:
        """Copy a part of an operand from host memory to the GPU that computes.

        Args:
            operand: Number of the operand.
            rows: Rows of the part.
            columns: Its columns.
            place: Its place on that GPU.
            freed: Events of that GPU after which the place may be written.
        """
        for block in _cut_blocks(operand, rows, columns, place):
            slot = next(self._in_slots)
            self._await(IN, slot.free)
            self._add(IN, CommandKind.COPY_IN, *block.list_host_words(slot.pointer))
            self._await(BETWEEN, self._mark(IN))
            for event in freed:
                self._add(BETWEEN, CommandKind.WAIT_FOR_PEER, 0, event)
            words = block.list_peer_words(slot.pointer, block.pointer)
            self._add(BETWEEN, CommandKind.COPY_BETWEEN, *words)
            self._loaded = slot.free = self._mark(BETWEEN)

    def store(self, operand: int, rows: range, columns: range, place: Layout, computed: int) -> int:
        """Copy a part of an operand from the GPU that computes to host memory.

        Args:
            operand: Number of the operand.
            rows: Rows of the part.
            columns: Its columns.
            place: Its place on that GPU.
            computed: Event of that GPU after which the place may be read.

        Returns:
            The event after it; -1 if it has no rows.
        """
        stored = -1
        for block in _cut_blocks(operand, rows, columns, place):
            slot = next(self._out_slots)
            self._add(_GATHER, CommandKind.WAIT_FOR_PEER, 0, computed)
            self._await(_GATHER, slot.free)
            words = block.list_peer_words(block.pointer, slot.pointer)
            self._add(_GATHER, CommandKind.COPY_BETWEEN, *words)
            self._await(OUT, self._mark(_GATHER))
            self._add(OUT, CommandKind.COPY_OUT, *block.list_host_words(slot.pointer))
            stored = slot.free = self._mark(OUT)
        return stored

    def take_loaded(self) -> int:
        """The event after the copies in since it was last asked; -1 if there were none."""
        loaded, self._loaded = self._loaded, -1
        return loaded

    def end_turn(self) -> None:
        """End a turn; the GPU that computes has ended its own."""
        self._ends.append(len(self._rows))

    def pack(self, label: str) -> CommandBuffer:
        """The commands, whose last event ends its work.

        Args:
            label: The kernel of the product, for messages.
        """
        commands, nothing = pack_commands(self._rows), np.array([], np.int32)
        return CommandBuffer(
            label=label,
            commands=commands,
            ends=np.array(self._ends, np.int64),
            events=self._events,
            stores=(),
            timed=Timed.WHOLE,
            kernel_spans=nothing,
            copy_spans=nothing,
            whole_span=np.array([(0, self._events - 1)], np.int32),
            memory=None,
            address=commands.ctypes.data,
        )

    def _await(self, queue: int, event: int) -> None:
        if event >= 0:
            self._add(queue, CommandKind.WAIT, event)

    def _mark(self, queue: int) -> int:
        event = self._events
        self._events += 1
        self._add(queue, CommandKind.RECORD, event)
        return event

    def _add(self, queue: int, kind: CommandKind, *words: int) -> None:
        self._rows.append((kind, queue, *words))


def divide_copy(rows: range, place: Layout, relays: int) -> list[range]:
    """The rows that each link copies: first the own link's, then those of each relay.

    Args:
        rows: Rows of a part of an operand.
        place: Its place on the GPU that computes.
        relays: Number of relays.
    """
    pitch_bytes = place.leading_dimension * place.item_bytes
    if len(rows) * place.columns * place.item_bytes < LEAST_BYTES or pitch_bytes > SLOT_BYTES:
        return [rows] + [rows[:0]] * relays
    bounds = [len(rows) * number // (1 + relays) for number in range(2 + relays)]
    return [rows[begin:end] for begin, end in pairwise(bounds)]


def _cut_blocks(operand: int, rows: range, columns: range, place: Layout) -> Iterator[_Block]:
    """The blocks of a part, each at most a slot."""
    item_bytes = place.item_bytes
    pitch_bytes = place.leading_dimension * item_bytes
    most = SLOT_BYTES // pitch_bytes if rows else 1
    for start in range(0, len(rows), most):
        yield _Block(
            operand, rows.start + start, min(most, len(rows) - start),
            columns.start * item_bytes, len(columns) * item_bytes, place.padding * item_bytes,
            pitch_bytes, place.pointer + start * pitch_bytes,
        )  # fmt: skip
