"""A team: GPUs that compute parts of one product, enqueued together by the calling thread.

The commands of all parts are recorded for the first product of a plan and cached. One call enqueues
them, so the host needs little more time for four GPUs than for one. All GPUs stay locked until the
last part has ended, because one may still copy B from the memory of another that is done.
"""

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

from wavetrim.kernels.pipeline.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.exchange import ExchangeRank, assign_ranks
from wavetrim.kernels.pipeline.host_product import (
    NO_GPU_HOOKS,
    GpuHooks,
    GpuTimings,
    HostOperand,
    HostProduct,
)
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.pipeline.submission import OPERANDS, Submitter, check_status
from wavetrim.kernels.schedule.panels import Cut


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


class _Program(ctypes.Structure):
    """The commands of one GPU of a team, as in kernels/transfer/native/commands.c."""

    _fields_ = (
        ("commands", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("batches", ctypes.c_int64),
        ("binding", ctypes.c_void_p),
        ("events", ctypes.c_void_p),
        ("first_row", ctypes.c_int64),
        ("left_bytes", ctypes.c_int64),
    )


class _Member(NamedTuple):
    """A GPU of a team with its commands.

    Attributes:
        submitter: The GPU.
        buffer: Its commands, which time at least the whole.
        part: Its part of all products.
        resident_b: Its B, if that is resident, so that it stays alive.
    """

    submitter: Submitter
    buffer: CommandBuffer
    part: TeamPart
    resident_b: Resident | None


class _Programs:
    """The commands of all GPUs of a team, which are enqueued by one call.

    Args:
        members: The GPUs.
        item_bytes: Bytes of an element.
    """

    def __init__(self, members: Sequence[_Member], item_bytes: int) -> None:
        self.members = members
        self._programs: Any = (_Program * len(members))(
            *(
                _Program(
                    commands=one.buffer.address,
                    ends=one.buffer.ends.ctypes.data,
                    batches=len(one.buffer.ends),
                    binding=one.submitter.address,
                    first_row=one.part.rows.start,
                    left_bytes=one.part.columns.start * item_bytes,
                )
                for one in members
            )
        )
        self._hosts: Any = (ctypes.c_void_p * OPERANDS)()
        self._pitches: Any = (ctypes.c_int64 * OPERANDS)()

    def enqueue(self, addresses: Sequence[int], pitches: Sequence[int]) -> None:
        """Enqueue the commands: a batch of each GPU, then the next one of each.

        Args:
            addresses: Addresses of all of A, B and C in page-locked memory.
            pitches: Their row strides in bytes.

        Raises:
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command.
        """
        self._hosts[:] = addresses
        self._pitches[:] = pitches
        # Another product may have moved an array of events.
        for program, one in zip(self._programs, self.members, strict=True):
            program.events = one.submitter.reserve_events(one.buffer)
        first, count = self.members[0], len(self.members)
        run = first.submitter.library.run_together
        check_status(first.buffer.label, run(self._programs, count, self._hosts, self._pitches))


class Team:
    """The GPUs of products of one shape by one kernel.

    Args:
        parts: The part of each GPU.
        exchanges: Whether the GPUs exchange B, if they can (`exchange`).

    Attributes:
        parts: The part of each GPU.
    """

    def __init__(self, parts: Sequence[TeamPart], *, exchanges: bool) -> None:
        self.parts, self._exchanges = tuple(parts), exchanges
        self._programs: _Programs | None = None
        self._known: tuple[object, ...] | None = None

    def enqueue(
        self, product: HostProduct, *, b_key: str | None = None, hooks: Sequence[GpuHooks] = ()
    ) -> Callable[[], list[GpuTimings]] | None:
        """Enqueue all parts of a product without waiting for them.

        Args:
            product: The whole product.
            b_key: Key of a resident B, as for `GpuPipeline.keep`.
            hooks: Those that get each GPU's rows; empty for none.

        Returns:
            A function that must be called in the same thread: it waits for all parts, reports their
            rows, and returns the times of each. None, with nothing done, if a part must be staged.

        Raises:
            KernelsError: As `GpuPipeline.multiply`; the function raises likewise.
        """
        product.check()
        if self._generations is None or product.alpha == 0 or product.c.size == 0:
            return None
        operands = product.describe_operands()
        programs = None
        began = time.perf_counter()
        self._acquire()
        try:
            if b_key is not None:
                programs = self._record_resident(product, operands, b_key)
            elif not any(product.find_staged(operands)):
                programs = self._find_programs(product)
            if programs is None:
                self._release()
                return None
            started = time.perf_counter()
            addresses, pitches = zip(*((x.address, x.pitch_bytes) for x in operands), strict=True)
            programs.enqueue(addresses, pitches)
        except BaseException as error:
            self._recover(error)
        return partial(self._finish, programs, product, hooks, started - began)

    def _find_programs(self, product: HostProduct) -> _Programs | None:
        """The commands of all parts, cached or new. Needs the locks.

        While the GPUs' memory is the same, they serve all page-locked operands of this shape.
        """
        if self._known != (product.alpha, product.beta, product.timed, self._generations):
            self._programs = self._record([part.take_from(product) for part in self.parts])
            self._known = product.alpha, product.beta, product.timed, self._generations
        return self._programs

    def _record_resident(
        self, product: HostProduct, operands: Sequence[HostOperand], b_key: str
    ) -> _Programs | None:
        """The commands with a resident B, not cached: the next product may use another B."""
        pieces = [
            part.take_from(product)._replace(resident_b=part.pipeline.residents.use(b_key))
            for part in self.parts
        ]
        if any(any(piece.find_staged(operands)) for piece in pieces):
            return None
        return self._record(pieces)

    def _record(self, pieces: Sequence[HostProduct]) -> _Programs:
        """The commands of all pieces."""
        steps = tuple(
            part.pipeline.memory.prepare(piece, part.cut).layouts
            for part, piece in zip(self.parts, pieces, strict=True)
        )
        ranks: Sequence[ExchangeRank | None] = [None] * len(pieces)
        if self._exchanges:
            devices = tuple(part.pipeline.device_index for part in self.parts)
            ranks = assign_ranks(devices, steps) or ranks
        members = []
        timed = Timed.EACH if pieces[0].timed else Timed.WHOLE
        for part, piece, rank in zip(self.parts, pieces, ranks, strict=True):
            path = part.pipeline.path
            assert path is not None, "each GPU of the team has a path of commands"
            buffer = path.find_buffer(piece, part.cut, timed, rank=rank)
            members.append(_Member(path.find_submitter(piece), buffer, part, piece.resident_b))
        return _Programs(members, pieces[0].spec.item_bytes)

    def _finish(
        self,
        programs: _Programs,
        product: HostProduct,
        hooks: Sequence[GpuHooks],
        lead_seconds: float,
    ) -> list[GpuTimings]:
        """Wait for one part after the other, and report its rows.

        Returns their times, from the call of `enqueue` on.
        """
        listeners = hooks or [NO_GPU_HOOKS] * len(self.parts)
        pieces = [
            one.part.take_from(product)._replace(hooks=listener, resident_b=one.resident_b)
            for one, listener in zip(programs.members, listeners, strict=True)
        ]
        try:
            timings = [
                one.submitter.finish(one.buffer, piece)
                for one, piece in zip(programs.members, pieces, strict=True)
            ]
        except BaseException as error:
            self._recover(error)
        self._release()
        return [one._replace(gpu_seconds=lead_seconds + one.gpu_seconds) for one in timings]

    def _recover(self, error: BaseException) -> NoReturn:
        """Wait until nothing is in flight on any GPU, unlock them, and raise the error."""
        found = error
        # A GPU's own error says whether it can still be used, so it is raised instead.
        for part in self.parts:
            try:
                part.pipeline.recover(error)
            except BaseException as raised:
                found = raised if found is error else found
        self._release()
        raise found

    @property
    def _generations(self) -> list[int] | None:
        """Generations of the GPUs' device memory; None if there is no C library."""
        pipelines = [part.pipeline for part in self.parts]
        if any(one.path is None for one in pipelines):
            return None
        return [one.memory.generation for one in pipelines]

    def _acquire(self) -> None:
        """Lock all GPUs, in the order that is the same for all teams."""
        for part in self.parts:
            part.pipeline.lock.acquire()

    def _release(self) -> None:
        """Unlock all GPUs."""
        for part in self.parts:
            part.pipeline.lock.release()
