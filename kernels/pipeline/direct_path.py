"""Products as command buffers, which are recorded once, kept and submitted.

For page-locked operands, and for small pageable ones, which are copied into page-locked memory. On
a crowded machine, where threads that share a copy wait for each other, the driver copies them.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.gemm.prepared import bind_context
from wavetrim.kernels.gemm.resident import check_sms
from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer, Timed
from wavetrim.kernels.pipeline.commands.exchange import Seat
from wavetrim.kernels.pipeline.commands.recording import record_commands
from wavetrim.kernels.pipeline.commands.submission import Submitter
from wavetrim.kernels.pipeline.device_memory import DeviceMemory
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.places import PlacedStep
from wavetrim.kernels.schedule.cuts import take_whole
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.kernels.transfer.bounce import BounceBuffer
from wavetrim.kernels.transfer.copies import HostOperand
from wavetrim.kernels.transfer.host_copies import copy_matrix, stream_matrix
from wavetrim.kernels.transfer.pinned import Matrix, has_adjacent_rows
from wavetrim.native.pool import ThreadPool
from wavetrim.native.tuned import PART_BYTES, SMALL_PRODUCT_BYTES

_CROWDED_BYTES: Final = 64 << 20
"""Largest A, B and C together that the driver copies on a crowded machine. Chosen: threads that
share copies are waited for in the end, up to 3 ms where they have lost their cores; in that time
the driver copies some 30 MB."""


class DirectPath:
    """Computes such products; made with its device as the current one.

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

    def place(self, product: HostProduct, cut: Cut) -> tuple[PlacedStep, ...]:
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
        seat: Seat | None = None,
    ) -> CommandBuffer | None:
        """The commands of a product, kept or new; None if they cannot be commands.

        Args:
            product: The product, which needs no staging.
            cut: How its rows are cut into steps.
            timed: What is timed.
            seat: Seat at the exchange of B; None to copy in all of it.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        problem = product.find_panels(self._device.sm_count, staged=False)
        resident = product.resident_b
        place = None if resident is None else resident.place
        scalars = product.sms, product.alpha, product.beta
        key = product.spec, problem, cut, *scalars, timed, place, seat
        commands = self._memory.commands
        buffer = commands.find(key)
        if buffer is None and key not in commands:
            buffer = self._record(product, problem, cut, timed, seat)
            commands.keep(key, buffer)
        return buffer

    def close(self) -> None:
        """Give back what libraries hold, and free memory."""
        self.submitter.close()
        self._bounce.close()

    def _leaves_copies(self, product: HostProduct) -> bool:
        """Whether the driver copies pageable operands: the fastest way for the caller alone."""
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
        places = self._place_copies(product, operands)
        if places is None:
            return None
        a, b, c = places
        read = (product.a, a), (product.b, b), (product.c, c if product.beta else product.c)
        for matrix, place in read:
            if place is not matrix:
                self._copy(place, matrix, by=stream_matrix)  # the GPU reads it next
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

    def _place_copies(
        self, product: HostProduct, operands: Sequence[HostOperand]
    ) -> tuple[Matrix, Matrix, Matrix] | None:
        """Page-locked places for those of A, B and C that are copied; not for a resident B."""
        a, b, c = operands
        if product.resident_b is None:
            places = self._bounce.place((a, b, c))
            return None if places is None else (places[0], places[1], places[2])
        places = self._bounce.place((a, c))
        return None if places is None else (places[0], product.b, places[1])

    def _record(
        self,
        product: HostProduct,
        problem: PanelProblem,
        cut: Cut,
        timed: Timed,
        seat: Seat | None,
    ) -> CommandBuffer | None:
        """The commands of a product; None if they cannot be commands."""
        import cupy

        spec = product.spec
        check_sms(spec, product.sms, self._device.sm_count)
        steps = self._memory.prepare(problem, cut, product.resident_b)
        with cupy.cuda.Device(self._device.index):
            if spec.source is None and not self.submitter.has_gemm:
                return None
            with self._compute:
                bind_context()
                calls = self._memory.launches.list_calls(product, steps)
            if calls is None:
                return None
            reads_c = product.beta != 0
            buffer = record_commands(
                steps, calls, label=spec.label, reads_c=reads_c, timed=timed, seat=seat
            )
            self.submitter.reserve_events(buffer)
        return buffer
