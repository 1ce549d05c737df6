"""The direct path: products as commands, which are recorded once, cached and submitted.

It is for page-locked operands. On a crowded machine pageable ones take it, too, and the driver
copies them: threads that shared a copy would wait for each other.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.gemm.cublas import CublasHandles
from wavetrim.kernels.gemm.prepared import bind_context
from wavetrim.kernels.pipeline.commands import CommandBuffer, Recorder, Timed
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.exchange import ExchangeRank
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct, PlainOperands
from wavetrim.kernels.pipeline.prepared_steps import PreparedSteps
from wavetrim.kernels.pipeline.submission import Submitter
from wavetrim.kernels.schedule.panels import Cut, take_whole
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.transfer.copies import HostOperand
from wavetrim.kernels.transfer.pinned import Matrix, has_adjacent_rows
from wavetrim.native.pool import ThreadPool

if TYPE_CHECKING:
    from wavetrim.kernels.pipeline.pipeline import GpuPipeline

_CROWDED_BYTES: Final = 64 << 20
"""Largest A, B and C together, in bytes, that the driver copies on a crowded machine. Chosen: a
thread without a core delays a shared copy by up to 3 ms; in that time the driver copies 30 MB."""


class DirectProduct:
    """C ← αA·B + βC for row-major operands of one shape in page-locked memory.

    What `GpuPipeline.multiply` looks up for each product is found once. That saves up to a tenth of
    a product of some milliseconds.

    Args:
        pipeline: The GPU; it has a direct path.
        spec: The kernel.
        shape: M, N and K.
        cut: How the rows are cut into steps.
        alpha: Factor of the product.
        beta: Factor of the old C.
    """

    def __init__(
        self,
        pipeline: "GpuPipeline",
        spec: KernelSpec,
        shape: tuple[int, int, int],
        cut: Cut,
        *,
        alpha: float,
        beta: float,
    ) -> None:
        assert pipeline.direct is not None, "the GPU has a direct path"
        self._pipeline, self._direct, self._memory = pipeline, pipeline.direct, pipeline.memory
        self._spec, self._cut, self._factors = spec, cut, (alpha, beta)
        self._operands = PlainOperands(shape, spec.dtype)
        self._buffer: CommandBuffer | None = None
        self._generation: int | None = None  # of the device memory that the commands use
        self._awake = True

    def run(self, a: Matrix, b: Matrix, c: Matrix, addresses: Sequence[int]) -> bool:
        """Compute it, as `StraightProduct.run` does.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        found = self._operands.locate(a, b, c, addresses)
        if found is None:
            return False
        pitches = a.strides[0], b.strides[0], c.strides[0]
        with self._pipeline.lock:
            try:
                if self._memory.generation != self._generation:
                    self._find_commands(a, b, c)
                if self._buffer is None:
                    return False
                run = self._direct.submitter.run_unwatched
                run(self._buffer, found, pitches, awake=self._awake)
            except BaseException as error:
                self._pipeline.recover(error)
        return True

    def _find_commands(self, a: Matrix, b: Matrix, c: Matrix) -> None:
        """Find the commands for the present device memory, recorded if they are not cached."""
        product = HostProduct(self._spec, a, b, c, *self._factors)
        self._buffer = self._direct.find_buffer(product, self._cut, Timed.NOTHING)
        self._generation = self._memory.generation
        self._awake = product.is_awaited_awake


class DirectPath:
    """Computes products by command buffers. Create it with its device as the current one.

    Args:
        device: The device.
        copiers: Threads that copy within host memory, with the C library.
        streams: CuPy's streams of the queues, in their order.
        handles: Handles of cuBLAS on the stream of the kernels.
        memory: The device memory, with what is prepared in it.

    Attributes:
        submitter: Runs the command buffers.
    """

    def __init__(
        self,
        device: DeviceInfo,
        copiers: ThreadPool,
        streams: Sequence[Any],
        handles: CublasHandles,
        memory: DeviceMemory,
    ) -> None:
        bind_context()
        self._copiers = copiers
        self._device = device
        self._compute = streams[1]
        self._memory = memory
        self.submitter = Submitter(copiers.library, streams, handles)

    def multiply(
        self, product: HostProduct, operands: Sequence[HostOperand], cut: Cut
    ) -> GpuTimings | None:
        """Compute a product; None if it must be staged or cannot be commands.

        Args:
            product: The product.
            operands: Its A, B and C.
            cut: How its rows are cut into steps.

        Raises:
            PipelineCancelled: The caller cancelled the product.
            KernelsError: As for `GpuPipeline.multiply`.
            CUDADriverError: CUDA refuses a command, or the device failed.
        """
        if product.needs_staging(operands):
            if not self._leaves_copies(product):
                return None
            # The driver's copies of pageable memory do not overlap, so one step is enough.
            cut = take_whole(product.find_panels(self._device.sm_count))
        timed = Timed.EACH if product.timed else Timed.NOTHING
        buffer = self.find_buffer(product, cut, timed)
        return None if buffer is None else self.submitter.run(buffer, product, operands)

    def find_buffer(
        self,
        product: HostProduct,
        cut: Cut,
        timed: Timed,
        rank: ExchangeRank | None = None,
    ) -> CommandBuffer | None:
        """The commands of a product, cached or new; None if it cannot be commands.

        Args:
            product: The product, which needs no staging.
            cut: How its rows are cut into steps.
            timed: What is timed.
            rank: Rank of this GPU in the exchange of B; None to copy in all of it.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        steps = self._memory.prepare(product, cut)
        key = timed, rank
        if key not in steps.commands:
            steps.commands[key] = self._record(product, steps, timed, rank)
        return steps.commands[key]

    def _leaves_copies(self, product: HostProduct) -> bool:
        """Whether the driver is to copy pageable operands."""
        return (
            product.copied_bytes < _CROWDED_BYTES
            and self._copiers.is_crowded
            and all(map(has_adjacent_rows, (product.a, product.b, product.c)))
        )

    def _record(
        self, product: HostProduct, steps: PreparedSteps, timed: Timed, rank: ExchangeRank | None
    ) -> CommandBuffer | None:
        """The commands of a product; None if it cannot be commands."""
        import cupy

        spec = product.spec
        with cupy.cuda.Device(self._device.index):
            if spec.is_cublas and not self.submitter.find_gemm(spec.dtype):
                return None
            with self._compute:
                bind_context()
                calls = steps.list_calls()
            if calls is None:
                return None
            reads_c = product.beta != 0
            recorder = Recorder(steps.layouts, calls, reads_c=reads_c, timed=timed, rank=rank)
            buffer = recorder.record(spec.label)
            self.submitter.reserve_events(buffer)
        return buffer
