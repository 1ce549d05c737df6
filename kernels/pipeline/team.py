"""Products of several GPUs that are parts of one: enqueued in turns, by the calling thread.

No GPU may begin other work before all of them have ended, because others may still copy B from its
memory. So all are taken until then.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from wavetrim.kernels.pipeline.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.direct_path import DirectPath
from wavetrim.kernels.pipeline.exchange import Seat, assign_seats
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.places import PlacedStep
from wavetrim.kernels.pipeline.submission import enqueue_in_turns
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.kernels.transfer.copies import HostOperand


@dataclass(frozen=True, slots=True, eq=False)
class PlacedProduct:
    """A product that has taken a GPU and has memory there, from `GpuPipeline.place`.

    Attributes:
        device: CUDA's index of the GPU.
        path: Records and submits its commands.
        product: The product.
        operands: Its A, B and C, which are page-locked.
        cut: How its rows are cut into steps.
        steps: Its steps with their addresses.
        release: Gives the GPU to others.
        recover: Waits until nothing is in flight after an error, and raises it.
    """

    device: int
    path: DirectPath
    product: HostProduct
    operands: Sequence[HostOperand]
    cut: Cut
    steps: tuple[PlacedStep, ...]
    release: Callable[[], None]
    recover: Callable[[BaseException], NoReturn]

    def record(self, seat: Seat | None) -> CommandBuffer | None:
        """Its commands, bound to its operands; None if they cannot be commands."""
        timed = Timed.EACH if self.product.timed else Timed.WHOLE
        buffer = self.path.find_buffer(self.product, self.cut, timed, seat)
        if buffer is not None:
            self.path.submitter.bind(buffer, self.operands)
        return buffer


def enqueue_team(
    parts: Iterable[PlacedProduct | None], *, exchanges: bool
) -> Callable[[], list[GpuTimings]] | None:
    """Enqueue the parts of a product without waiting for them.

    Args:
        parts: The part of each GPU; None where it cannot be enqueued at once.
        exchanges: Whether the GPUs exchange B, if they can (`exchange`).

    Returns:
        What must be called, in the same thread: it waits for all parts, reports their rows, and
        returns the times of each. None if a part cannot be enqueued; nothing is done then.

    Raises:
        KernelsError: As `GpuPipeline.multiply`; what was returned raises likewise.
    """
    placed: list[PlacedProduct] = []
    try:
        for part in parts:
            if part is None:
                _release(placed)
                return None
            placed.append(part)
        started = time.perf_counter()
        buffers = _record(placed, exchanges=exchanges)
        if buffers is None:
            _release(placed)
            return None
        enqueue_in_turns([one.path.submitter for one in placed], buffers)
    except BaseException as error:
        _recover(placed, error)
    return partial(_finish, placed, buffers, started)


def _record(placed: Sequence[PlacedProduct], *, exchanges: bool) -> list[CommandBuffer] | None:
    """The commands of each part; None if one has none."""
    seats: Sequence[Seat | None] = [None] * len(placed)
    if exchanges and len({one.operands[1].address for one in placed}) == 1:
        devices, steps = zip(*((one.device, one.steps) for one in placed), strict=True)
        seats = assign_seats(devices, steps) or seats
    buffers = []
    for one, seat in zip(placed, seats, strict=True):
        buffer = one.record(seat)
        if buffer is None:
            return None
        buffers.append(buffer)
    return buffers


def _finish(
    placed: Sequence[PlacedProduct], buffers: Sequence[CommandBuffer], started: float
) -> list[GpuTimings]:
    """Wait for all parts."""
    try:
        timings = [
            one.path.submitter.finish(buffer, one.product, started)
            for one, buffer in zip(placed, buffers, strict=True)
        ]
    except BaseException as error:
        _recover(placed, error)
    _release(placed)
    return timings


def _release(placed: Sequence[PlacedProduct]) -> None:
    """Give the GPUs to others."""
    for one in placed:
        one.release()


def _recover(placed: Sequence[PlacedProduct], error: BaseException) -> NoReturn:
    """Wait until nothing is in flight on any GPU, give them to others, and raise the error."""
    found = error
    for one in placed:
        try:
            one.recover(error)
        except BaseException as raised:
            found = raised if found is error else found
    _release(placed)
    raise found
