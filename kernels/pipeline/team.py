"""A team: GPUs that compute parts of one product, enqueued together by the calling thread.

The commands of all parts are recorded for the first such product and kept. Then one call enqueues
them, in turns, and one waits for them, so the host needs little more time for four GPUs than for
one. No GPU may begin other work before all of them have ended, because others may still copy B from
its memory. So all are taken until then.

A team of one GPU may have relays, whose links carry a part of its bytes.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.commands.exchange import Seat, assign_seats
from wavetrim.kernels.pipeline.commands.programs import Programs
from wavetrim.kernels.pipeline.commands.relay import Relay
from wavetrim.kernels.pipeline.commands.submission import Waiting
from wavetrim.kernels.pipeline.direct_path import DirectPath
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.kernels.transfer.copies import HostOperand


class TeamPart(NamedTuple):
    """The part of one GPU.

    Attributes:
        pipeline: The GPU.
        rows: Its rows of A and C.
        columns: Its columns of B and C.
        cut: How its rows are cut into steps.
    """

    pipeline: GpuPipeline
    rows: range
    columns: range
    cut: Cut

    def take_from(self, product: HostProduct) -> HostProduct:
        """The part of a product."""
        rows = slice(self.rows.start, self.rows.stop)
        columns = slice(self.columns.start, self.columns.stop)
        a, b, c = product.a[rows], product.b[:, columns], product.c[rows, columns]
        return product._replace(a=a, b=b, c=c)


class Listener(NamedTuple):
    """Who is told of one GPU's rows: `progress` and `final` of `GpuPipeline.multiply`."""

    progress: Callable[[int], None] | None
    final: Callable[[range], None] | None


class Team:
    """The GPUs of products of one shape by one kernel.

    Args:
        parts: The part of each GPU.
        exchanges: Whether the GPUs exchange B, if they can (`exchange`).
        relays: Relays of a single GPU, in an order that all teams keep; used if they can reach it.
    """

    def __init__(
        self, parts: Sequence[TeamPart], *, exchanges: bool, relays: Sequence[Relay] = ()
    ) -> None:
        self._parts, self._exchanges = tuple(parts), exchanges
        self._relays = tuple(relays)
        self._programs: Programs | None = None
        self._known: tuple[float, ...] | None = None
        self._waiting = Waiting.NAPPING

    def enqueue(
        self, product: HostProduct, *, b_key: str | None = None, listeners: Sequence[Listener] = ()
    ) -> Callable[[], list[GpuTimings]] | None:
        """Enqueue all parts of a product without waiting for them.

        Args:
            product: The whole product.
            b_key: Key of a B that the GPUs keep, as for `GpuPipeline.multiply`.
            listeners: Who is told of each GPU's rows; empty for nobody.

        Returns:
            What must be called, in the same thread: it waits for all parts, reports their rows, and
            returns the times of each. None if a part cannot be enqueued at once, as its operands
            must be staged; nothing is done then.

        Raises:
            KernelsError: As `GpuPipeline.multiply`; what was returned raises likewise.
        """
        product.check()
        paths = [part.pipeline.direct for part in self._parts if part.pipeline.direct is not None]
        if len(paths) < len(self._parts) or product.alpha == 0 or product.c.size == 0:
            return None
        operands = product.describe_operands()
        began = time.perf_counter()
        for part in self._parts:
            part.pipeline.lock.acquire()
        for relay in self._relays:
            relay.lock.acquire()
        try:
            programs = self._find_programs(product, operands, paths, b_key)
            if programs is None:
                self._release()
                return None
            started = time.perf_counter()
            programs.enqueue(operands)
        except BaseException as error:
            self._recover(error)
        return partial(self._finish, programs, product, listeners, started - began)

    def _find_programs(
        self,
        product: HostProduct,
        operands: Sequence[HostOperand],
        paths: Sequence[DirectPath],
        b_key: str | None,
    ) -> Programs | None:
        """The commands, kept or new; None if a part has none, or must be staged."""
        if b_key is None:
            if product.needs_staging(operands):
                return None
            if self._known == _list_known(product, paths):
                return self._programs
        pieces = [part.take_from(product) for part in self._parts]
        if b_key is not None:
            residents = [part.pipeline.residents.use(b_key) for part in self._parts]
            pieces = [
                piece._replace(resident_b=resident)
                for piece, resident in zip(pieces, residents, strict=True)
            ]
            if any(piece.needs_staging(operands) for piece in pieces):
                return None
        self._programs = self._record(pieces, paths)
        # Another product may use another resident.
        self._known = _list_known(product, paths) if b_key is None else None
        self._waiting = Waiting.AWAKE if pieces[0].is_awaited_awake else Waiting.NAPPING
        return self._programs

    def _record(
        self, pieces: Sequence[HostProduct], paths: Sequence[DirectPath]
    ) -> Programs | None:
        """The commands of all parts; None if one has none."""
        cuts = [part.cut for part in self._parts]
        steps = tuple(
            path.place(piece, cut) for path, piece, cut in zip(paths, pieces, cuts, strict=True)
        )
        seats: Sequence[Seat | None] = [None] * len(pieces)
        if self._exchanges:
            devices = tuple(part.pipeline.device_index for part in self._parts)
            seats = assign_seats(devices, steps) or seats
        slots = self._open_relays(paths[0])
        buffers: list[CommandBuffer] = []
        for path, piece, cut, seat in zip(paths, pieces, cuts, seats, strict=True):
            timed = Timed.EACH if piece.timed else Timed.WHOLE
            buffer = path.find_buffer(piece, cut, timed, seat, slots)
            if buffer is None:
                return None
            buffers.append(buffer)
        item_bytes = pieces[0].spec.item_bytes
        starts = [(part.rows.start, part.columns.start * item_bytes) for part in self._parts]
        submitters = [path.submitter for path in paths]
        for relay, commands in zip(self._relays, buffers[0].relayed, strict=False):
            submitters.append(relay.prepare(commands))
            buffers.append(commands)
            starts.append(starts[0])
        return Programs(submitters, buffers, starts)

    def _open_relays(self, path: DirectPath) -> tuple[int, ...]:
        """Addresses of the relays' slots; none if one of the relays cannot be used."""
        target, library = self._parts[0].pipeline.device_index, path.submitter.library
        slots = [relay.open(target, library) for relay in self._relays]
        found = tuple(one for one in slots if one is not None)
        return found if len(found) == len(slots) else ()

    def _finish(
        self,
        programs: Programs,
        product: HostProduct,
        listeners: Sequence[Listener],
        lead_seconds: float,
    ) -> list[GpuTimings]:
        """Wait for all parts; returns their times, each with the time before it was enqueued."""
        try:
            if listeners or product.timed:
                timings = self._report(programs, product, listeners)
            else:
                seconds = programs.finish(self._waiting)[: len(self._parts)]
                timings = [GpuTimings(None, None, one) for one in seconds]
        except BaseException as error:
            self._recover(error)
        self._release()
        return [one._replace(gpu_seconds=lead_seconds + one.gpu_seconds) for one in timings]

    def _report(
        self, programs: Programs, product: HostProduct, listeners: Sequence[Listener]
    ) -> list[GpuTimings]:
        """Wait for one part after the other, and report its rows."""
        timings = []
        for number, (part, buffer) in enumerate(zip(self._parts, programs.buffers, strict=False)):
            piece = part.take_from(product)
            if listeners:
                piece = piece._replace(**listeners[number]._asdict())
            path = part.pipeline.direct
            assert path is not None, "its commands are enqueued"
            timings.append(path.submitter.finish(buffer, piece))
        return timings

    def _release(self) -> None:
        """Give the GPUs to others."""
        for relay in self._relays:
            relay.lock.release()
        for part in self._parts:
            part.pipeline.lock.release()

    def _recover(self, error: BaseException) -> NoReturn:
        """Wait until nothing is in flight on any GPU, give them to others, and raise the error."""
        found = error
        # A part's own error comes first: it says whether the device can still be used.
        taken: list[GpuPipeline | Relay] = [part.pipeline for part in self._parts]
        for one in (*taken, *self._relays):
            try:
                one.recover(error)
            except BaseException as raised:
                found = raised if found is error else found
        self._release()
        raise found


def _list_known(product: HostProduct, paths: Sequence[DirectPath]) -> tuple[float, ...]:
    """What commands depend on besides the team."""
    generations = (path.generation for path in paths)
    return (product.alpha, product.beta, product.timed, *generations)
