"""C ← αA·B + βC on arrays on a GPU: each product goes to the module of its kernel."""

from contextlib import nullcontext
from pathlib import Path

from wavetrim.kernels.errors import OperandError, raise_failure
from wavetrim.kernels.gemm.bulk import Workspace, prepare_bulk
from wavetrim.kernels.gemm.cublas import multiply_now, prepare_cublas
from wavetrim.kernels.gemm.half import prepare_half
from wavetrim.kernels.gemm.launch import count_sms, prepare_tiles
from wavetrim.kernels.gemm.operands import DeviceArray, Product, describe_product
from wavetrim.kernels.gemm.partitions import hold_stream
from wavetrim.kernels.gemm.prepared import Command, CommandKind, PreparedLaunch, bind_context
from wavetrim.kernels.gemm.tensor import prepare_terms
from wavetrim.kernels.gemm.terms import TermMemory
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.tiling import BulkTiling, ClusterTiling, TermTiling


def multiply_on_device(
    spec: KernelSpec,
    a: DeviceArray,
    b: DeviceArray,
    c: DeviceArray,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    sms: int | None = None,
    cache_dir: Path,
) -> None:
    """Enqueue C ← αA·B + βC on CuPy's current stream, without waiting.

    As in BLAS, C is not read when β is 0, nor A and B when α is 0.

    Args:
        spec: The kernel.
        a: A[M, K], a row-major cupy.ndarray of the kernel's element type; rows may be padded.
        b: B[K, N], likewise.
        c: C[M, N], likewise; written in place. It may not overlap A or B.
        alpha: Factor of the product.
        beta: Factor of the old C.
        sms: Limit of multiprocessors, for a kernel that `can_limit_sms`; rounded down to a multiple
            of its `sms_quantum`. None for all.
        cache_dir: Folder of compiled kernels.

    Raises:
        OperandError: Shapes, element types, strides or devices do not fit, or the kernel cannot be
            limited to `sms` multiprocessors.
        CompilationFailed: The kernel does not compile for the device.
        DeviceFailure: CUDA or cuBLAS refuses the launch, or there is no memory for terms.
        DeviceUnavailable: cuBLAS is not installed, or the driver has no green contexts.
    """
    import cupy

    product = describe_product(spec, (a, b, c), alpha, beta)
    with cupy.cuda.Device(c.device.id):
        check_sms(spec, sms, count_sms())
        bind_context()
        enqueue(spec, prepare_product(spec, product, cache_dir, sms=sms), sms=sms)


def prepare_product(
    spec: KernelSpec,
    product: Product,
    cache_dir: Path,
    *,
    sms: int | None = None,
    terms: TermMemory | None = None,
    workspace: Workspace | None = None,
) -> PreparedLaunch:
    """Prepare a product on the current device, for the current stream.

    Args:
        spec: The kernel.
        product: The product, of the kernel's element type.
        cache_dir: Folder of compiled kernels.
        sms: Limit of multiprocessors that `check_sms` accepts.
        terms: Memory for bfloat16 terms, if the kernel makes any; None to allocate from CuPy's
            pool.
        workspace: Memory for partial sums of tiles; None to allocate from CuPy's pool.

    Raises:
        OperandError: A size is too large for the kernel.
        CompilationFailed: The kernel does not compile for the device.
        DeviceFailure: CUDA or cuBLAS refuses the launch, or there is no memory for terms.
        DeviceUnavailable: cuBLAS is not installed.
    """
    try:
        if spec.is_cublas:
            return prepare_cublas(spec, product)
        if isinstance(spec.tiling, BulkTiling):
            return prepare_bulk(spec, product, cache_dir, sms=sms, workspace=workspace)
        if isinstance(spec.tiling, ClusterTiling):
            return prepare_half(spec, product, cache_dir, sms=sms)
        if isinstance(spec.tiling, TermTiling):
            return prepare_terms(spec, product, cache_dir, sms=sms, memory=terms)
        return PreparedLaunch((prepare_tiles(spec, product, cache_dir, sms=sms),))
    except Exception as error:
        raise_failure(error, f"{spec.label}: ")


def enqueue(spec: KernelSpec, launch: PreparedLaunch, *, sms: int | None = None) -> None:
    """Enqueue a launch on CuPy's current stream, without waiting.

    Args:
        spec: The kernel.
        launch: The launch, prepared for the current device.
        sms: The limit that it was prepared for.

    Raises:
        OperandError: The driver makes no green context that small.
        DeviceFailure: CUDA or cuBLAS refuses a command.
        DeviceUnavailable: The driver has no green contexts.
    """
    from cupy.cuda import get_current_stream

    is_limited = spec.is_cublas and sms is not None and sms != count_sms()
    try:
        with hold_stream(sms or 0, spec.sms_quantum) if is_limited else nullcontext():
            stream: int = get_current_stream().ptr
            for command in launch.commands:
                _enqueue_one(spec, command, stream)
    except Exception as error:
        raise_failure(error, f"{spec.label}: ")


def _enqueue_one(spec: KernelSpec, command: Command, stream: int) -> None:
    from cupy.cuda import driver, runtime

    words = command.words
    if command.kind == CommandKind.LAUNCH:
        function, blocks, x, y, z, shared_bytes, arguments = words
        grid, block = (blocks, 1, 1), (x, y, z)
        driver.launchKernel(function, *grid, *block, shared_bytes, stream, arguments, 0)
    elif command.kind == CommandKind.CLEAR:
        pointer, size_bytes = words
        runtime.memsetAsync(pointer, 0, size_bytes, stream)
    elif command.kind == CommandKind.COPY_BETWEEN:
        source, target, rows, row_bytes, from_bytes, to_bytes = words
        ends, kind = (target, to_bytes, source, from_bytes), runtime.memcpyDeviceToDevice
        runtime.memcpy2DAsync(*ends, row_bytes, rows, kind, stream)
    else:
        arguments_of_cublas, _ = command.memory
        multiply_now(spec, arguments_of_cublas)


def check_sms(spec: KernelSpec, sms: int | None, sm_count: int) -> None:
    """Check that a kernel can be limited to `sms` multiprocessors.

    Args:
        spec: The kernel.
        sms: The limit; None for all.
        sm_count: Multiprocessors of the GPU.

    Raises:
        OperandError: The kernel cannot be limited, or not to this number.
    """
    if sms is None:
        return
    if not spec.can_limit_sms:
        raise OperandError(f"sms is {sms}; {spec.label} cannot be limited to some multiprocessors")
    if not 1 <= sms <= sm_count:
        raise OperandError(f"sms is {sms}; it must be 1…{sm_count}, this GPU's multiprocessors")
    if spec.count_usable_sms(sms, sm_count) == 0:
        least = f"at least {spec.sms_quantum} multiprocessors"
        raise OperandError(f"sms is {sms}; {spec.label} can be limited to {least}")
