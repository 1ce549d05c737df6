"""A product of a known shape, whose commands were found before."""

from typing import TYPE_CHECKING, Final

from wavetrim.kernels.pipeline.command_buffer import NOT_STAGED, CommandBuffer, Staged, Timed
from wavetrim.kernels.pipeline.host_product import HostProduct
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.plain import Addresses, Matrix, PlainOperands

if TYPE_CHECKING:
    from wavetrim.kernels.pipeline.pipeline import GpuPipeline

_ALL_STAGED: Final[Staged] = (True, True, True)


class CommandProduct:
    """C ← αA·B + βC for row-major operands of one shape, all of them staged or none.

    What `GpuPipeline.multiply` looks up for each product is found once. That saves up to a tenth of
    a product of some milliseconds.

    Args:
        pipeline: The GPU; it has a path of commands.
        spec: The kernel.
        shape: M, N and K.
        cut: How the rows are cut into steps.
        alpha: Factor of the product.
        beta: Factor of the old C.
        is_staged: Whether operands are staged; else they are page-locked.
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
        is_staged: bool,
    ) -> None:
        assert pipeline.path is not None, "the GPU has a path of commands"
        self._pipeline, self._path = pipeline, pipeline.path
        self._spec, self._cut, self._factors = spec, cut, (alpha, beta)
        self._operands = PlainOperands(shape, spec.dtype)
        self._staged = _ALL_STAGED if is_staged else NOT_STAGED
        self._strides = (spec.item_bytes,) * 3
        self._buffer: CommandBuffer | None = None
        self._generation: int | None = None  # of the device memory that the commands use
        self._awake = True

    def run(self, a: Matrix, b: Matrix, c: Matrix, addresses: Addresses | None) -> bool:
        """Compute it, as `StraightProduct.run` does.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        found = self._operands.locate(a, b, c, addresses)
        if found is None:
            return False
        pitches, path = (a.strides[0], b.strides[0], c.strides[0]), self._path
        with self._pipeline.lock:
            try:
                stage = path.wake_stage(None) if self._staged[0] else None
                if self._buffer is None or path.memory.generation != self._generation:
                    self._buffer = self._find_buffer(a, b, c)
                path.submitter.run_at(
                    self._buffer, found, pitches, self._strides, stage, awake=self._awake
                )
            except BaseException as error:
                self._pipeline.recover(error)
        return True

    def _find_buffer(self, a: Matrix, b: Matrix, c: Matrix) -> CommandBuffer:
        """Find the commands for the present device memory, recorded if they are not cached."""
        product = HostProduct(self._spec, a, b, c, *self._factors)
        buffer = self._path.find_buffer(product, self._cut, Timed.NOTHING, self._staged)
        self._generation, self._awake = self._path.memory.generation, product.is_awaited_awake
        return buffer
