"""A relay: a GPU that computes nothing of a product, but whose link carries a part of its bytes.

Each copy from or to host memory is divided among the link of the GPU that computes and those of its
relays. A relay's part crosses its link into a slot of its memory, and goes on from GPU to GPU; the
other way likewise. Slots are used in turn, so both halves of the way are busy at the same time.

A relay has streams and memory of its own, not those of its GPU's pipeline, which may compute
another product meanwhile.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from wavetrim.kernels.errors import is_out_of_memory
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import CommandKind, bind_context
from wavetrim.kernels.pipeline.commands.command_buffer import (
    BETWEEN,
    COMPUTE,
    IN,
    OUT,
    CommandBuffer,
)
from wavetrim.kernels.pipeline.commands.submission import Submitter
from wavetrim.kernels.transfer.peers import allow_access

if TYPE_CHECKING:
    import ctypes


_GATHER: Final = COMPUTE
"""The queue of copies from the GPU that computes: a relay has no kernels."""

SLOT_BYTES: Final = 8 << 20
"""Size of a slot. Chosen: with slots of 2, 4, 8 and 16 MiB products reach 1.68, 1.79, 1.90 and 1.92
times the rate of one link on two H100s; smaller slots begin earlier."""

SLOTS: Final = 8
"""Slots for each direction; chosen."""

LEAST_BYTES: Final = 1 << 20
"""Least copy that is divided; chosen. The events of a part take about as long as a tenth of it."""


class RelayMemory(NamedTuple):
    """A relay's slots: their first address, for copies in; those for copies out follow."""

    start: int


class Relay:
    """One GPU as a relay; opened by its first product. One product at a time.

    Args:
        device_index: CUDA's index of the GPU.
    """

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index
        self._submitter: Submitter | None = None
        self._memory: Any = None
        self._streams: tuple[Any, ...] = ()
        self._lock = threading.Lock()

    def take(self) -> None:
        """Take the relay until `release`; other callers wait."""
        self._lock.acquire()

    def release(self) -> None:
        """Give the relay to others."""
        self._lock.release()

    def open(self, target: int, library: "ctypes.CDLL") -> RelayMemory | None:
        """Make streams and memory, for the one who has taken it.

        Args:
            target: CUDA's index of the GPU that computes.
            library: The C library.

        Returns:
            Its slots; None if it has too little free memory for them, or cannot copy to and from
            that GPU's memory.

        Raises:
            CUDARuntimeError: The device failed.
        """
        import cupy

        if not allow_access(self.device_index, target):
            return None
        if self._memory is None:
            with cupy.cuda.Device(self.device_index):
                try:
                    memory = cupy.cuda.Memory(2 * SLOTS * SLOT_BYTES)
                except cupy.cuda.runtime.CUDARuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    return None
                bind_context()
                self._streams = tuple(cupy.cuda.Stream(non_blocking=True) for _ in range(4))
                self._submitter = Submitter(library, self._streams)
                self._memory = memory
        return RelayMemory(self._memory.ptr)

    def prepare(self, commands: CommandBuffer) -> Submitter:
        """What submits its commands, with the events that they need; for the one who has taken it.

        Args:
            commands: The commands.
        """
        import cupy

        assert self._submitter is not None, "commands are recorded for slots, so it is open"
        with cupy.cuda.Device(self.device_index):
            self._submitter.reserve_events(commands)
        return self._submitter

    def recover(self, error: BaseException) -> NoReturn:
        """Wait until nothing is in flight, then raise the error; for the one who has taken it."""
        for stream in self._streams:
            stream.synchronize()
        raise error

    def close(self) -> None:
        """Free what it holds."""
        self._memory, self._submitter, self._streams = None, None, ()


class _Block(NamedTuple):
    """Rows that pass through one slot."""

    operand: int
    first_row: int
    rows: int
    left_bytes: int
    row_bytes: int
    pitch_bytes: int
    pointer: int

    def list_host_words(self, slot: int) -> tuple[int, ...]:
        """Words of the copy between host memory and a slot."""
        rows = self.first_row, self.left_bytes, self.rows, self.row_bytes
        return (self.operand, *rows, slot, self.pitch_bytes)

    def list_peer_words(self, source: int, target: int) -> tuple[int, ...]:
        """Words of the copy between the GPUs."""
        return source, target, self.rows, self.row_bytes, self.pitch_bytes


@dataclass(slots=True)
class _Slot:
    """A slot, and the event after which it is free; -1 if it was not used yet."""

    pointer: int
    free: int = -1


class RelayCommands:
    """Records a relay's commands for one product, in turns with those of the GPU that computes.

    Args:
        memory: The relay's slots.

    Attributes:
        rows: Kind, queue and words of each command.
        ends: Number of commands until the end of each turn.
    """

    def __init__(self, memory: RelayMemory) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.ends: list[int] = []
        self._numbers = count()
        starts = [memory.start + number * SLOT_BYTES for number in range(2 * SLOTS)]
        self._in_slots = cycle([_Slot(start) for start in starts[:SLOTS]])
        self._out_slots = cycle([_Slot(start) for start in starts[SLOTS:]])
        self._loaded = -1
        self._mark(IN)  # the begin of its work

    @property
    def events(self) -> int:
        """Number of events; the last one ends its work."""
        return max(row[2] for row in self.rows if row[0] == CommandKind.RECORD) + 1

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
        self.ends.append(len(self.rows))

    def _await(self, queue: int, event: int) -> None:
        if event >= 0:
            self._add(queue, CommandKind.WAIT, event)

    def _mark(self, queue: int) -> int:
        event = next(self._numbers)
        self._add(queue, CommandKind.RECORD, event)
        return event

    def _add(self, queue: int, kind: CommandKind, *words: int) -> None:
        self.rows.append((kind, queue, *words))


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
            columns.start * item_bytes, len(columns) * item_bytes, pitch_bytes,
            place.pointer + start * pitch_bytes,
        )  # fmt: skip
