"""Products as command buffers, which are recorded once, cached and submitted.

For page-locked operands, and for small pageable ones, which are copied into page-locked memory. If
the machine is crowded, the driver copies them: threads that share a copy would wait for each other.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.gemm.dispatch import check_sms
from wavetrim.kernels.gemm.prepared import bind_context
from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.commands.exchange import ExchangeRank
from wavetrim.kernels.pipeline.commands.recording import record_commands
from wavetrim.kernels.pipeline.commands.submission import Submitter
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.step_layouts import StepLayout
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Cut, take_whole
from wavetrim.kernels.transfer.bounce import BounceBuffer
from wavetrim.kernels.transfer.copies import HostOperand
from wavetrim.kernels.transfer.host_copies import copy_matrix, stream_matrix
from wavetrim.kernels.transfer.pinned import Matrix, has_adjacent_rows
from wavetrim.native.pool import ThreadPool
from wavetrim.native.tuned import PART_BYTES, SMALL_PRODUCT_BYTES

_CROWDED_BYTES: Final = 64 << 20
"""Largest A, B and C together that the driver copies on a crowded machine. Chosen: a thread without
a core delays a shared copy by up to 3 ms, and in that time the driver copies 30 MB."""


class DirectPath:
    """Computes products by command buffers; made with its device as the current one.

    Args:
        device: The device.
        copiers: Threads that copy within host memory, with the C library.
        streams: CuPy's streams of the queues, in their order.
        memory: The device memory, with the launches and command buffers that are valid in it.

    Attributes:
        submitter: Runs the command buffers.
    """

    def __init__(
        self, device: DeviceInfo, copiers: ThreadPool, streams: Sequence[Any], memory: DeviceMemory
    ) -> None:
        bind_context()
        self._copiers = copiers
        self._device = device
        self._compute = streams[1]
        self._memory = memory
        self.submitter = Submitter(copiers.library, streams)
        self._bounce = BounceBuffer(device.index)

    def compute(
        self, product: HostProduct, operands: Sequence[HostOperand], cut: Cut
    ) -> GpuTimings | None:
        """Compute a product; None if it must be staged or cannot be a command buffer.

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
                return self._compute_copied(product, operands, cut)
            # The driver's copies do not overlap, so a step is enough.
            cut = take_whole(product.find_panels(self._device.sm_count, staged=False))
        timed = Timed.EACH if product.timed else Timed.NOTHING
        buffer = self.find_buffer(product, cut, timed)
        return None if buffer is None else self.submitter.run(buffer, product, operands)

    @property
    def generation(self) -> int:
        """Number of the device memory for which steps and command buffers are valid."""
        return self._memory.generation

    def lay_out(self, product: HostProduct, cut: Cut) -> tuple[StepLayout, ...]:
        """The steps of a product that needs no staging, with their addresses.

        Args:
            product: The product.
            cut: How its rows are cut into steps.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        problem = product.find_panels(self._device.sm_count, staged=False)
        return self._memory.prepare(problem, cut, product.resident_b)

    def find_buffer(
        self,
        product: HostProduct,
        cut: Cut,
        timed: Timed,
        rank: ExchangeRank | None = None,
    ) -> CommandBuffer | None:
        """The commands of a product, cached or new; None if it cannot be a command buffer.

        Args:
            product: The product, which needs no staging.
            cut: How its rows are cut into steps.
            timed: What is timed.
            rank: Rank of this GPU in the exchange of B; None to copy in all of it.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        problem = product.find_panels(self._device.sm_count, staged=False)
        resident = product.resident_b
        layout = None if resident is None else resident.layout
        scalars = product.sms, product.alpha, product.beta
        key = product.spec, problem, cut, *scalars, timed, layout, rank
        commands = self._memory.commands
        buffer = commands.find(key)
        if buffer is None and key not in commands:
            buffer = self._record(product, problem, cut, timed, rank)
            commands.keep(key, buffer)
        return buffer

    def close(self) -> None:
        """Free the memory, and what libraries have allocated."""
        self.submitter.close()
        self._bounce.close()

    def _leaves_copies(self, product: HostProduct) -> bool:
        """Whether the driver copies pageable operands, in the calling thread alone."""
        return (
            product.copied_bytes < _CROWDED_BYTES
            and self._copiers.is_crowded
            and all(map(has_adjacent_rows, (product.a, product.b, product.c)))
        )

    def _compute_copied(
        self,
        product: HostProduct,
        operands: Sequence[HostOperand],
        cut: Cut,
    ) -> GpuTimings | None:
        """Compute a small product from copies of its pageable operands.

        Overlapping copies and transfers would save less than enqueueing steps one by one costs.
        Returns None if the product must be staged.
        """
        if product.copied_bytes > SMALL_PRODUCT_BYTES:
            return None
        started = time.perf_counter()
        copies = self._find_bounce(product, operands)
        if copies is None:
            return None
        a, b, c = copies
        read = (product.a, a), (product.b, b), (product.c, c if product.beta else product.c)
        for matrix, copy in read:
            if copy is not matrix:
                self._copy(copy, matrix, by=stream_matrix)  # the GPU reads it next
        # Its rows are final once they are copied back.
        copied = product._replace(a=a, b=b, c=c, progress=None, final=None)
        timings = self.compute(copied, copied.describe_operands(), cut)
        if timings is None:
            return None
        if c is not product.c:
            self._copy(product.c, c, by=copy_matrix)
        rows = len(c)
        if product.progress is not None:
            product.progress(rows)
        if product.final is not None:
            product.final(range(rows))
        if product.timed:
            return timings
        return timings._replace(gpu_seconds=time.perf_counter() - started)

    def _copy(
        self, target: Matrix, source: Matrix, *, by: Callable[[ThreadPool, Matrix, Matrix], None]
    ) -> None:
        """Copy a matrix, with other threads if it is larger than one thread takes at a time."""
        if source.nbytes <= PART_BYTES:
            np.copyto(target, source)
        else:
            by(self._copiers, target, source)

    def _find_bounce(
        self, product: HostProduct, operands: Sequence[HostOperand]
    ) -> tuple[Matrix, Matrix, Matrix] | None:
        """Page-locked memory for those of A, B and C that are copied; not for a resident B."""
        a, b, c = operands
        if product.resident_b is None:
            found = self._bounce.find_matrices((a, b, c))
            return None if found is None else (found[0], found[1], found[2])
        found = self._bounce.find_matrices((a, c))
        return None if found is None else (found[0], product.b, found[1])

    def _record(
        self,
        product: HostProduct,
        problem: PanelProblem,
        cut: Cut,
        timed: Timed,
        rank: ExchangeRank | None,
    ) -> CommandBuffer | None:
        """The commands of a product; None if it cannot be a command buffer."""
        import cupy

        spec = product.spec
        check_sms(spec, product.sms, self._device.sm_count)
        steps = self._memory.prepare(problem, cut, product.resident_b)
        with cupy.cuda.Device(self._device.index):
            if spec.is_cublas and not self.submitter.has_gemm:
                return None
            with self._compute:
                bind_context()
                calls = self._memory.launches.list_calls(product, steps)
            if calls is None:
                return None
            reads_c = product.beta != 0
            buffer = record_commands(
                steps, calls, label=spec.label, reads_c=reads_c, timed=timed, rank=rank
            )
            self.submitter.reserve_events(buffer)
        return buffer
