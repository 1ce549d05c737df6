"""A product whose commands are recorded, so that it can be computed again with other operands.

`GpuPipeline.multiply` and `Team.enqueue` check and look up everything for each product. That may
take as long as a short product itself, above all after other work, when its code is in no cache of
the CPU. Here three addresses are bound, and the commands are submitted.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.commands.programs import Programs
from wavetrim.kernels.pipeline.commands.submission import Waiting
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.transfer.pinned import Matrix, find_locked
from wavetrim.native.element_types import find_dtype

if TYPE_CHECKING:
    from wavetrim.kernels.pipeline.pipeline import GpuPipeline
    from wavetrim.kernels.pipeline.team import Team


class RecordedKind:
    """The products that commands are recorded for, whatever their operands.

    Those are row-major matrices of their shapes and type in memory that was locked here, with a C
    that is writable and shares none of it with A and B.

    Args:
        spec: The kernel.
        shape: M, N and K.
        alpha: Factor of the product, not 0.
        beta: Factor of the old C.
        sms: Limit of multiprocessors, as for `GpuPipeline.multiply`.
    """

    def __init__(
        self,
        spec: KernelSpec,
        shape: tuple[int, int, int],
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        sms: int | None = None,
    ) -> None:
        self._spec, self._alpha, self._beta, self._sms = spec, alpha, beta, sms
        (m, n, k), self._dtype = shape, find_dtype(spec.dtype)
        self._shapes = (m, k), (k, n), (m, n)

    def describe(self, a: Matrix, b: Matrix, c: Matrix) -> HostProduct:
        """The product of three operands."""
        return HostProduct(self._spec, a, b, c, self._alpha, self._beta, sms=self._sms)

    def find_addresses(self, a: Matrix, b: Matrix, c: Matrix) -> list[int] | None:
        """Addresses of operands that commands can be bound to; None if they are others.

        One long function, as calls of Python are what it saves.
        """
        fits = (a.shape, b.shape, c.shape) == self._shapes
        fits = fits and a.dtype is b.dtype is c.dtype is self._dtype
        if not (fits and c.flags.writeable):
            return None
        addresses = find_locked(a, b, c)
        if addresses is None:
            return None
        a_address, b_address, c_address = addresses
        c_end = c_address + c.nbytes
        if a_address < c_end and c_address < a_address + a.nbytes:
            return None
        if b_address < c_end and c_address < b_address + b.nbytes:
            return None
        return addresses


class RecordedProduct:
    """C ← αA·B + βC on one GPU, for operands of one kind.

    Args:
        pipeline: The GPU; it has a direct path.
        kind: What its commands are recorded for.
        cut: How the rows are cut into steps.
    """

    def __init__(self, pipeline: "GpuPipeline", kind: RecordedKind, cut: Cut) -> None:
        assert pipeline.direct is not None, "only it has commands"
        self._pipeline, self._direct = pipeline, pipeline.direct
        self._kind, self._cut = kind, cut
        self._buffer: CommandBuffer | None = None
        self._generation: int | None = None  # that of the device memory for which it is recorded
        self._waiting = Waiting.AWAKE

    def run(self, a: Matrix, b: Matrix, c: Matrix) -> Sequence[float] | None:
        """Compute it, untimed.

        Args:
            a: A.
            b: B.
            c: C, written in place.

        Returns:
            An empty list: one GPU's seconds are those of the call. None if `GpuPipeline.multiply`
            must compute it, and nothing is done.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        addresses = self._kind.find_addresses(a, b, c)
        if addresses is None:
            return None
        pitches = a.strides[0], b.strides[0], c.strides[0]
        with self._pipeline.lock:
            try:
                if self._direct.generation != self._generation:
                    self._find_commands(a, b, c)
                if self._buffer is None:
                    return None
                run = self._direct.submitter.run_unwatched
                run(self._buffer, addresses, pitches, self._waiting)
            except BaseException as error:
                self._pipeline.recover(error)
        return ()

    def _find_commands(self, a: Matrix, b: Matrix, c: Matrix) -> None:
        """Record the commands, or find them, for the device memory as it is divided now."""
        product = self._kind.describe(a, b, c)
        self._buffer = self._direct.find_buffer(product, self._cut, Timed.NOTHING)
        self._generation = self._direct.generation
        self._waiting = Waiting.AWAKE if product.is_awaited_awake else Waiting.NAPPING


class RecordedTeamProduct:
    """The same on a team, whose parts compute all rows.

    Args:
        team: The team; all of its GPUs have direct paths.
        kind: What its commands are recorded for.
    """

    def __init__(self, team: "Team", kind: RecordedKind) -> None:
        self._team, self._kind = team, kind
        self._programs: Programs | None = None
        self._generations: list[int] | None = None

    def run(self, a: Matrix, b: Matrix, c: Matrix) -> Sequence[float] | None:
        """Compute it.

        Args:
            a: A.
            b: B.
            c: C, written in place.

        Returns:
            Seconds of each GPU, from its first command to its last. None if `Team.enqueue` must
            compute it, and nothing is done.

        Raises:
            KernelsError: As for `Team.enqueue`.
        """
        addresses = self._kind.find_addresses(a, b, c)
        if addresses is None:
            return None
        pitches = a.strides[0], b.strides[0], c.strides[0]
        team, seconds = self._team, None
        team.acquire()
        try:
            if team.generations != self._generations:
                self._programs = team.find_programs(self._kind.describe(a, b, c))
                self._generations = team.generations
            programs = self._programs
            if programs is not None:
                programs.enqueue(addresses, pitches)
                seconds = programs.finish()
        except BaseException as error:
            team.recover(error)
        team.release()
        return seconds
