"""The exchange: GPUs that share a product each fetch a part of B, and get the rest from each other.

The rows of B that a step needs are divided among the GPUs. Each GPU copies its piece over its own
link, and the other pieces from the other GPUs' memory. So B crosses the links once, whatever the
number of GPUs, and travels piece by piece, as the steps need it.

Each GPU has a seat, used by the thread that enqueues its product. It publishes a piece when the
copy is enqueued. A GPU that needs the piece waits for that. If the other GPU has left without it,
it fetches the piece over its own link. At the start all GPUs find out whether they need the same
pieces; if not, nothing is exchanged.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from wavetrim.kernels.events import EventPool, find_runtime
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.pipeline.places import PlacedStep
from wavetrim.kernels.transfer.copies import HostOperand, OperandPart, PendingCopy
from wavetrim.kernels.transfer.direct import MOST_PADDING_BYTES
from wavetrim.kernels.transfer.peers import allow_access
from wavetrim.kernels.transfer.staging import Staging

_BETWEEN_ANY: Final = 4  # cudaMemcpyDefault

_Needs: TypeAlias = tuple[tuple[range, range, int], ...]
"""Depth, columns and leading dimension of each part of B, in the order of the steps."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of a step's part of B that one GPU fetches over its own link.

    Attributes:
        place: Place of the whole part on that GPU.
        end: Event after which its rows are there; None if it has none to fetch.
    """

    place: Layout
    end: Any


class Exchange:
    """The pieces of B that the GPUs of one product have fetched. Thread-safe.

    Args:
        devices: CUDA's index of each GPU.

    Attributes:
        seats: A seat for each GPU, in that order.
    """

    def __init__(self, devices: Sequence[int]) -> None:
        self._devices = tuple(devices)
        self._needs: dict[int, _Needs | None] = {}
        self._pieces: dict[tuple[int, int], _Piece] = {}
        self._left: set[int] = set()
        self._changed = threading.Condition()
        self.seats = tuple(Seat(self, number, self._devices) for number in range(len(devices)))

    def join(self, seat: int, needs: _Needs | None) -> bool:
        """Wait until all GPUs have told what they need; return whether all need the same.

        Args:
            seat: Number of the seat.
            needs: What its GPU needs; None if it cannot take part.
        """
        with self._changed:
            self._needs[seat] = needs
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._needs) == len(self._devices))
            return needs is not None and len(set(self._needs.values())) == 1

    def publish(self, seat: int, number: int, piece: _Piece) -> None:
        """Tell the others of a piece whose copy is enqueued."""
        with self._changed:
            self._pieces[seat, number] = piece
            self._changed.notify_all()

    def find(self, seat: int, number: int) -> _Piece | None:
        """The piece of another GPU, once it is there; None if that GPU has left without it."""
        with self._changed:
            self._changed.wait_for(lambda: (seat, number) in self._pieces or seat in self._left)
            return self._pieces.get((seat, number))

    def leave(self, seat: int) -> None:
        """Tell the others that this GPU fetches nothing more."""
        with self._changed:
            self._left.add(seat)
            self._needs.setdefault(seat, None)
            self._changed.notify_all()


class Seat:
    """One GPU's place at an exchange, used by one thread.

    Args:
        exchange: The exchange.
        number: Number of the seat.
        devices: CUDA's index of each seat's GPU.
    """

    def __init__(self, exchange: Exchange, number: int, devices: Sequence[int]) -> None:
        self._exchange, self.number, self._devices = exchange, number, devices
        self._loads = 0

    def begin(self, b: HostOperand, steps: Sequence[PlacedStep]) -> bool:
        """Whether B is exchanged; if not, each GPU fetches all of it.

        It is exchanged only if all of it fits each GPU's memory together with the other buffers.

        Args:
            b: B, which must be page-locked.
            steps: The steps of the product on this GPU.
        """
        mine, whole = self._devices[self.number], b.matrix.shape
        # Memory that one GPU fills again may still be read by another.
        stays = all((one.step.buffer_depth, len(one.step.buffer_columns)) == whole for one in steps)
        needs = None
        if stays and b.is_pinned and all(allow_access(mine, other) for other in self._devices):
            needs = tuple(
                (one.step.depth, one.step.columns, one.b.leading_dimension)
                for one in steps
                if one.step.loads_b
            )
        return self._exchange.join(self.number, needs)

    def load(
        self,
        b: HostOperand,
        placed: PlacedStep,
        after: Any,
        *,
        inward: Staging,
        stream: Any,
        events: EventPool,
    ) -> list[PendingCopy]:
        """Copy in B[depth, columns] of the next step that needs some of B.

        Args:
            b: B.
            placed: The step.
            after: CUDA event to wait for; None for none.
            inward: Copies over the own link.
            stream: CuPy's stream of copies from other GPUs.
            events: Pool of events.

        Returns:
            The copy of this GPU's rows, which is enqueued, and the copy of the others', which is
            enqueued when its result is asked for.
        """
        number, self._loads = self._loads, self._loads + 1
        pieces = [_cut_piece(b, placed, rows) for rows in self._divide(len(placed.step.depth))]
        own = pieces[self.number]
        copies = inward.copy_in([own], after) if own.rows else []
        end = copies[0].end if copies else None
        self._exchange.publish(self.number, number, _Piece(placed.b, end))
        rest = _PeerCopy(self, number, pieces, after, inward=inward, stream=stream, events=events)
        return [*copies, rest]

    def fetch(
        self, number: int, pieces: Sequence[OperandPart], inward: Staging, stream: int
    ) -> None:
        """Enqueue the copies of the other GPUs' pieces into a stream."""
        runtime = find_runtime()
        for seat, part in enumerate(pieces):
            if seat == self.number or not part.rows:
                continue
            piece = self._exchange.find(seat, number)
            if piece is None:  # that GPU has left
                (copy,) = inward.copy_in([part], None)
                runtime.streamWaitEvent(stream, copy.end.ptr)
                continue
            runtime.streamWaitEvent(stream, piece.end.ptr)
            depth = pieces[0].rows.start
            rows = range(part.rows.start - depth, part.rows.stop - depth)
            source = piece.place.cut(rows, range(len(part.columns)))
            ends = self._devices[self.number], self._devices[seat]
            _copy_between(source, part.place, ends, stream)

    def leave(self) -> None:
        """Tell the others that this GPU fetches nothing more; call it even after an error."""
        self._exchange.leave(self.number)

    def _divide(self, depth: int) -> list[range]:
        """The rows of each GPU."""
        seats = len(self._devices)
        bounds = [depth * seat // seats for seat in range(seats + 1)]
        return [range(*bounds[seat : seat + 2]) for seat in range(seats)]


class _PeerCopy:
    """The copy of the other GPUs' pieces of one step, enqueued when its result is asked for.

    By then all copies over the own link, of this step and of later ones, are enqueued: two GPUs
    that wait for each other have published what the other needs.
    """

    __slots__ = (
        "_after",
        "_inward",
        "_number",
        "_pieces",
        "_seat",
        "_sent",
        "_stream",
        "end",
        "start",
    )

    def __init__(
        self,
        seat: Seat,
        number: int,
        pieces: Sequence[OperandPart],
        after: Any,
        *,
        inward: Staging,
        stream: Any,
        events: EventPool,
    ) -> None:
        self._seat, self._number, self._pieces = seat, number, pieces
        self._after, self._inward, self._stream = after, inward, stream.ptr
        self.start, self.end = events.take(), events.take()
        self._sent = False

    def done(self) -> bool:
        """Whether its transfers are enqueued."""
        return self._sent

    def result(self, *, awake: bool = False) -> None:
        """Enqueue its transfers, once the other GPUs have enqueued theirs."""
        del awake
        if self._sent:
            return
        runtime, stream = find_runtime(), self._stream
        if self._after is not None:
            runtime.streamWaitEvent(stream, self._after.ptr)
        runtime.eventRecord(self.start.ptr, stream)
        self._seat.fetch(self._number, self._pieces, self._inward, stream)
        runtime.eventRecord(self.end.ptr, stream)
        self._sent = True


def _cut_piece(b: HostOperand, placed: PlacedStep, rows: range) -> OperandPart:
    """Some rows of a step's part of B, and their place on the device."""
    step = placed.step
    depth = range(step.depth.start + rows.start, step.depth.start + rows.stop)
    place = placed.b.cut(rows, range(len(step.columns)))
    return OperandPart(b, depth, step.columns, place)


def _copy_between(source: Layout, target: Layout, devices: tuple[int, int], stream: int) -> None:
    """Enqueue a copy from one GPU's memory to another's.

    Args:
        source: The matrix on the sending GPU.
        target: Its place on the receiving GPU, with the same leading dimension.
        devices: CUDA's index of the receiving and of the sending GPU.
        stream: The receiving GPU's stream.
    """
    runtime = find_runtime()
    row_bytes = target.columns * target.item_bytes
    pitch_bytes = target.leading_dimension * target.item_bytes
    if pitch_bytes - row_bytes <= MOST_PADDING_BYTES:
        size_bytes = (target.rows - 1) * pitch_bytes + row_bytes
        runtime.memcpyPeerAsync(
            target.pointer, devices[0], source.pointer, devices[1], size_bytes, stream
        )
    else:
        ends = target.pointer, pitch_bytes, source.pointer, pitch_bytes
        runtime.memcpy2DAsync(*ends, row_bytes, target.rows, _BETWEEN_ANY, stream)
