"""The straight path of a small product: copies in, one call of cuBLAS, one copy out, one wait.

Cutting it would cost more than the overlap saves. The calling thread makes the few calls itself,
and the driver copies page-locked and pageable memory alike. What a shape needs is found once.
"""

from typing import TYPE_CHECKING, Any, Final

from wavetrim.kernels.gemm.cublas import find_arguments
from wavetrim.kernels.gemm.operands import Layout, Product
from wavetrim.kernels.gemm.prepared import bind_context
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.spec import KernelSpec
from wavetrim.native.plain import Addresses, Matrix, PlainOperands

if TYPE_CHECKING:
    from wavetrim.kernels.pipeline.pipeline import GpuPipeline

_ALIGNMENT_BYTES: Final = 256
"""Matrices on the device begin at multiples of this, as CUDA's own allocations do."""

_MOST_CACHED: Final = 512
"""Most shapes that are cached; chosen, to bound host memory."""

_IN, _OUT = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost


class StraightProduct:
    """C ← αA·B + βC by cuBLAS, for row-major operands of one shape and type.

    Args:
        pipeline: The GPU.
        spec: cuBLAS's entry of the catalog.
        shape: M, N and K.
        alpha: Factor of the product.
        beta: Factor of the old C.
    """

    def __init__(
        self,
        pipeline: "GpuPipeline",
        spec: KernelSpec,
        shape: tuple[int, int, int],
        alpha: float,
        beta: float,
    ) -> None:
        import cupy
        from cupy.cuda import cublas, runtime

        self._pipeline, self._memory, self._spec = pipeline, pipeline.memory, spec
        self._alpha, self._beta = alpha, beta
        self._operands = PlainOperands(shape, spec.dtype)
        self._device = cupy.cuda.Device(pipeline.device_index)
        self._copy, self._await = runtime.memcpyAsync, runtime.streamSynchronize
        self._gemm, self._handle = cublas.gemmEx, 0
        self._generation: int | None = None  # of the device memory that the addresses are in
        self._addresses: tuple[int, int, int] = (0, 0, 0)
        self._call: Any = None
        self._factors: Any = None  # α and β, to which the call points

    def run(self, a: Matrix, b: Matrix, c: Matrix, addresses: Addresses | None = None) -> bool:
        """Compute it, and wait for it.

        Args:
            a: A.
            b: B.
            c: C, written in place.
            addresses: Addresses of all three, if they are known.

        Returns:
            False, with nothing done, if `GpuPipeline.multiply` must compute it: operands of another
            shape, type or layout, a C that shares memory with A or B, too little device memory.

        Raises:
            KernelsError: As for `GpuPipeline.multiply`.
        """
        found = self._operands.locate(a, b, c, addresses)
        if found is None:
            return False
        at_a, at_b, at_c = found
        pipeline, copy, stream = self._pipeline, self._copy, self._pipeline.compute_stream
        address: int = stream.ptr
        with pipeline.lock:
            try:
                with self._device, stream:
                    if self._memory.generation != self._generation and not self._lay_out():
                        return False
                    on_device_a, on_device_b, on_device_c = self._addresses
                    copy(on_device_a, at_a, a.nbytes, _IN, address)
                    copy(on_device_b, at_b, b.nbytes, _IN, address)
                    if self._beta != 0:
                        copy(on_device_c, at_c, c.nbytes, _IN, address)
                    self._gemm(self._handle, *self._call)
                    copy(at_c, on_device_c, c.nbytes, _OUT, address)
                    self._await(address)
            except BaseException as error:
                pipeline.recover(error)
        return True

    def _lay_out(self) -> bool:
        """Give the operands their addresses in device memory; False if that is too small."""
        item_bytes, shapes = self._spec.item_bytes, self._operands.shapes
        offsets, end = [], 0
        for rows, columns in shapes:
            offsets.append(end)
            end += -(-rows * columns * item_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        start = self._memory.reserve(end)
        if start is None:
            return False
        bind_context()
        self._handle = self._pipeline.handles.find(self._spec.dtype)
        a, b, c = (
            Layout(start + offset, *shape, shape[1], item_bytes)
            for offset, shape in zip(offsets, shapes, strict=True)
        )
        self._addresses = a.pointer, b.pointer, c.pointer
        product = Product(a, b, c, a.columns, self._alpha, self._beta)
        self._call, self._factors = find_arguments(self._spec, product)
        self._generation = self._memory.generation
        return True


class StraightProducts:
    """The straight products of one GPU, by kernel, shape and factors."""

    def __init__(self, pipeline: "GpuPipeline") -> None:
        self._pipeline = pipeline
        self._cache = LastUsed[tuple[object, ...], StraightProduct](_MOST_CACHED)

    def find(
        self, spec: KernelSpec, shape: tuple[int, int, int], alpha: float, beta: float
    ) -> StraightProduct:
        """The product of a shape, cached or new."""
        key = spec.dtype, shape, alpha, beta
        product = self._cache.find(key)
        if product is None:
            product = StraightProduct(self._pipeline, spec, shape, alpha, beta)
            self._cache.keep(key, product)
        return product
