"""A team: GPUs that compute parts of one product, enqueued together by the calling thread.

The commands of all parts are recorded for the first product of a plan and cached. One call enqueues
them, and one waits for them, so the host needs little more time for four GPUs than for one. All
GPUs stay locked until the last part has ended, because one may still copy B from the memory of
another that is done.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.commands.exchange import ExchangeRank, assign_ranks
from wavetrim.kernels.pipeline.commands.programs import Programs
from wavetrim.kernels.pipeline.commands.submission import Waiting
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.schedule.panels import Cut
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
    """Functions that get one GPU's rows: `progress` and `final` of `GpuPipeline.multiply`."""

    progress: Callable[[int], None] | None
    final: Callable[[range], None] | None


class Team:
    """The GPUs of products of one shape by one kernel.

    Args:
        parts: The part of each GPU.
        exchanges: Whether the GPUs exchange B, if they can (`exchange`).
    """

    def __init__(self, parts: Sequence[TeamPart], *, exchanges: bool) -> None:
        self._parts, self._exchanges = tuple(parts), exchanges
        self._programs: Programs | None = None
        self._known: tuple[object, ...] | None = None

    @property
    def generations(self) -> list[int] | None:
        """Generations of the GPUs' device memory; None if a GPU has no direct path."""
        paths = [part.pipeline.direct for part in self._parts]
        return None if None in paths else [path.generation for path in paths if path is not None]

    def acquire(self) -> None:
        """Lock all GPUs, in the order that is the same for all teams."""
        for part in self._parts:
            part.pipeline.lock.acquire()

    def release(self) -> None:
        """Unlock all GPUs."""
        for part in self._parts:
            part.pipeline.lock.release()

    def enqueue(
        self, product: HostProduct, *, b_key: str | None = None, listeners: Sequence[Listener] = ()
    ) -> Callable[[], list[GpuTimings]] | None:
        """Enqueue all parts of a product without waiting for them.

        Args:
            product: The whole product.
            b_key: Key of a resident B, as for `GpuPipeline.multiply`.
            listeners: Functions that get each GPU's rows; empty for none.

        Returns:
            A function that must be called in the same thread: it waits for all parts, reports their
            rows, and returns the times of each. None, with nothing done, if a part must be staged.

        Raises:
            KernelsError: As `GpuPipeline.multiply`; the function raises likewise.
        """
        product.check()
        if self.generations is None or product.alpha == 0 or product.c.size == 0:
            return None
        operands = product.describe_operands()
        programs = None
        began = time.perf_counter()
        self.acquire()
        try:
            if b_key is not None:
                programs = self._record_resident(product, operands, b_key)
            elif not product.needs_staging(operands):
                programs = self.find_programs(product)
            if programs is None:
                self.release()
                return None
            started = time.perf_counter()
            addresses, pitches = zip(*((x.address, x.pitch_bytes) for x in operands), strict=True)
            programs.enqueue(addresses, pitches)
        except BaseException as error:
            self.recover(error)
        return partial(self._finish, programs, product, listeners, started - began)

    def find_programs(self, product: HostProduct) -> Programs | None:
        """The commands of all parts, cached or new; None if a part has none. Call `acquire` first.

        While the team's `generations` are the same, they serve all page-locked operands of the
        product's shape.
        """
        if self._known != (product.alpha, product.beta, product.timed, self.generations):
            self._programs = self._record([part.take_from(product) for part in self._parts])
            self._known = product.alpha, product.beta, product.timed, self.generations
        return self._programs

    def _record_resident(
        self, product: HostProduct, operands: Sequence[HostOperand], b_key: str
    ) -> Programs | None:
        """The commands with a resident B, not cached: the next product may use another B."""
        pieces = [
            part.take_from(product)._replace(resident_b=part.pipeline.residents.use(b_key))
            for part in self._parts
        ]
        if any(piece.needs_staging(operands) for piece in pieces):
            return None
        return self._record(pieces)

    def _record(self, pieces: Sequence[HostProduct]) -> Programs | None:
        """The commands of all pieces; None if one has none."""
        paths = [part.pipeline.direct for part in self._parts if part.pipeline.direct is not None]
        cuts = [part.cut for part in self._parts]
        steps = tuple(
            path.lay_out(piece, cut) for path, piece, cut in zip(paths, pieces, cuts, strict=True)
        )
        ranks: Sequence[ExchangeRank | None] = [None] * len(pieces)
        if self._exchanges:
            devices = tuple(part.pipeline.device_index for part in self._parts)
            ranks = assign_ranks(devices, steps) or ranks
        buffers: list[CommandBuffer] = []
        for path, piece, cut, rank in zip(paths, pieces, cuts, ranks, strict=True):
            timed = Timed.EACH if piece.timed else Timed.WHOLE
            buffer = path.find_buffer(piece, cut, timed, rank)
            if buffer is None:
                return None
            buffers.append(buffer)
        item_bytes = pieces[0].spec.item_bytes
        starts = [(part.rows.start, part.columns.start * item_bytes) for part in self._parts]
        submitters = [path.submitter for path in paths]
        waiting = Waiting.AWAKE if pieces[0].is_awaited_awake else Waiting.NAPPING
        residents = [piece.resident_b for piece in pieces]
        return Programs(submitters, buffers, starts, waiting, residents)

    def _finish(
        self,
        programs: Programs,
        product: HostProduct,
        listeners: Sequence[Listener],
        lead_seconds: float,
    ) -> list[GpuTimings]:
        """Wait for all parts; returns their times, from the call of `enqueue` on."""
        try:
            if listeners or product.timed:
                timings = self._report(programs, product, listeners)
            else:
                timings = [GpuTimings(None, None, seconds) for seconds in programs.finish()]
        except BaseException as error:
            self.recover(error)
        self.release()
        return [one._replace(gpu_seconds=lead_seconds + one.gpu_seconds) for one in timings]

    def _report(
        self, programs: Programs, product: HostProduct, listeners: Sequence[Listener]
    ) -> list[GpuTimings]:
        """Wait for one part after the other, and report its rows."""
        timings = []
        for number, (part, buffer) in enumerate(zip(self._parts, programs.buffers, strict=True)):
            piece = part.take_from(product)
            if listeners:
                piece = piece._replace(**listeners[number]._asdict())
            path = part.pipeline.direct
            assert path is not None, "its commands are enqueued"
            timings.append(path.submitter.finish(buffer, piece))
        return timings

    def recover(self, error: BaseException) -> NoReturn:
        """Wait until nothing is in flight on any GPU, unlock them, and raise the error."""
        found = error
        # A GPU's own error says whether it can still be used, so it is raised instead.
        for part in self._parts:
            try:
                part.pipeline.recover(error)
            except BaseException as raised:
                found = raised if found is error else found
        self.release()
        raise found
