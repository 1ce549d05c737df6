"""Matrix products on the GPU and the CPU at once, split where the waves end.

`matmul` multiplies NumPy arrays in this process; `plan` says which device would compute which
rows; `empty` makes arrays that the GPU reads by itself. `Client` and `AsyncClient` speak to a
service.

What a name needs is imported when it is first used.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from wavetrim.client import AsyncClient, Client
    from wavetrim.scheduler.planning.plan import Plan

    __version__: str

__all__ = ["AsyncClient", "Client", "__version__", "empty", "matmul", "plan"]


def matmul(
    a: "ArrayLike",
    b: "ArrayLike",
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: "ArrayLike | None" = None,
    out: "NDArray[Any] | None" = None,
    accuracy: Literal["strict", "library", "float32", "float64"] | None = None,
    f: int | Literal["auto"] = "auto",
    device: Literal["cpu", "gpu"] | None = None,
    devices: str | None = None,
    verify: bool = False,
) -> "NDArray[Any]":
    """αA·B + βC, as `numpy.matmul` multiplies, on the GPU and the CPU of this machine.

    Shapes, stacks of matrices, vectors and element types follow `numpy.matmul`. Operands may be
    whatever `numpy.asarray` takes, with any strides, and arrays of other libraries in host memory
    (DLPack); they are not changed. An operand with a mask, units or labels is refused. Overflows
    give no warning, whatever NumPy's `errstate`. Element types are float16, bfloat16 (of
    ml_dtypes), float32, float64, complex64, complex128, and integers of 8 to 64 bits, which wrap
    around as in NumPy. The product's type is NumPy's `result_type`, also for bfloat16, whose
    products `numpy.matmul` leaves in float32. Several threads may call it; products run one by one.

    Args:
        a: (…, M, K), or (K,), which is taken as a row.
        b: (…, K, N), or (K,), which is taken as a column. Stacks, the axes before the last two, are
            broadcast against each other.
        alpha: Factor of A·B, real; a whole number for integers. 0 reads neither A nor B.
        beta: Factor of C, real; a whole number for integers. 0 does not read C.
        c: Added β times; broadcast to the result. Its element type counts for the result's; that of
            a Python number only as whole, real or complex.
        out: Array of the result's shape and element type that receives it, with any strides. It may
            share memory with A, B or C: the result is as if it did not.
        accuracy: How exact sums on the GPU are; None for "library". "strict": fused multiply-adds
            in the order of k. "library": as NumPy and cuBLAS sum. "float32", "float64": errors as
            of sums in that type, tensor cores allowed; for products in that type.
        f: Rows of each matrix of the result that the CPU computes, 0…M; "auto" for the fastest.
        device: "cpu" or "gpu" for all rows there, unless `f` is given; None for the fastest.
        devices: GPUs that may be used: "none", or CUDA's indices such as "0,1"; None for all. Those
            that make the product faster compute.
        verify: Whether to check the result by projections (R. Freivalds), in about
            MN + MK + KN operations.

    Returns:
        A new array (for two vectors a NumPy scalar), or `out`.

    Raises:
        wavetrim.scheduler.errors.FieldError: A ValueError. An argument is refused; the message
            names it, its value and its limit.
        wavetrim.scheduler.errors.VerificationFailed: The result did not pass its check.
        wavetrim.scheduler.errors.ForkedProcess: This process was forked from one that used the GPU.
        wavetrim.scheduler.errors.ExecutionError: A device failed.

    Examples:
        >>> import numpy as np, wavetrim
        >>> wavetrim.matmul([[1, 2], [3, 4]], [[5, 6], [7, 8]])
        array([[19, 22],
               [43, 50]])
        >>> stack = np.ones((10, 3, 4), np.float32)
        >>> wavetrim.matmul(stack, np.ones((4, 5), np.float32)).shape
        (10, 3, 5)
        >>> c = np.eye(2)
        >>> wavetrim.matmul(2 * np.eye(2), np.eye(2), alpha=0.5, beta=3.0, c=c, out=c)
        array([[4., 0.],
               [0., 4.]])
        >>> wavetrim.matmul(np.ones((2, 3)), np.ones((2, 3)))
        Traceback (most recent call last):
        wavetrim.scheduler.errors.ProblemError: shape of b is (2, 3); it must be (…, 3, N), as a has
        3 columns
    """
    result: NDArray[Any] = _import_multiply()(
        _read_options, a, b, alpha=alpha, beta=beta, c=c, out=out,
        accuracy=accuracy, f=f, device=device, devices=devices, verify=verify,
    )  # fmt: skip
    return result


def plan(
    m: int,
    n: int,
    k: int,
    *,
    dtype: "DTypeLike" = "float32",
    memory: Literal["pageable", "pinned"] = "pageable",
    kernel: str = "auto",
    tile: str | None = None,
    f: int | Literal["auto"] = "auto",
    accuracy: Literal["strict", "library", "float32", "float64"] | None = None,
    sms: int | None = None,
    device: str | None = None,
    devices: str | None = None,
    cpu_threads: int | None = None,
    cpu_gflops: float | None = None,
    link_gbytes_per_second: float | None = None,
    resident: bool = False,
) -> "Plan":
    """Which device would compute which rows of C[M,N] = A[M,K]·B[K,N], and in what time.

    Args:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        dtype: Element type of all three.
        memory: Kind of their memory: "pageable", as of arrays, or "pinned", page-locked (`empty`).
        kernel: A kernel of the GPU's, or "auto" for the fastest.
        tile: A tile of that kernel, such as "64x128x16"; None for the fastest.
        f: Rows of C for the CPU, 0…M, or "auto" for the fastest.
        accuracy: How exact sums on the GPU are, as in `matmul`.
        sms: Multiprocessors that the kernel may use, from 1; None for all.
        device: None for this machine with all of its GPUs, "cpu", a GPU of this machine ("cuda:0"
            or its name), any other such as "T4" or "H200", or several: "H200 x2".
        devices: GPUs of this machine that may be used, as in `matmul`.
        cpu_threads: What if the CPU had this number of threads: its rates grow with them.
        cpu_gflops: What if the CPU alone had this rate in this element type.
        link_gbytes_per_second: What if the GPU's link had this rate each way, in 1e9 bytes a
            second.
        resident: What if B were on the GPUs already.

    Returns:
        The plan: its `f`, `gpu_rows`, `gpu_parts` (the part of each GPU), `spec` (the kernel),
        `waves`, `predicted` (seconds), `profile` (what it was decided from), and others.
        `describe()` is all of it as `/v1/plan` answers, each figure with its source.

    Raises:
        wavetrim.scheduler.errors.FieldError: A ValueError. An argument is refused; the message
            names it, its value and its limit.

    Examples:
        >>> import wavetrim
        >>> few = wavetrim.plan(4096, 4096, 4096, dtype="float64", device="T4", cpu_threads=8)
        >>> few.f + few.gpu_rows, few.waves < few.waves_gpu_only
        (4096, True)
        >>> more = wavetrim.plan(4096, 4096, 4096, dtype="float64", device="T4", cpu_threads=64)
        >>> more.f > few.f, more.describe()["profile"]["cpu"]["threads"]
        (True, 64)
        >>> wavetrim.plan(100, 100, 100, device="cpu").f
        100
        >>> wavetrim.plan(100, 100, 0)
        Traceback (most recent call last):
        wavetrim.scheduler.errors.ProblemError: k is 0; it must be at least 1
    """
    from wavetrim.scheduler.local.plan import plan_locally
    from wavetrim.scheduler.options import PlanOptions
    from wavetrim.scheduler.profile.what_if import WhatIf

    return plan_locally(
        _read_options,
        m=m, n=n, k=k, dtype=dtype, memory=memory, device=device, resident=resident,
        options=PlanOptions(kernel, tile, f, accuracy, sms, devices),
        what_if=WhatIf(cpu_threads, cpu_gflops, link_gbytes_per_second),
    )  # fmt: skip


def empty(shape: int | tuple[int, ...], dtype: "DTypeLike" = "float32") -> "NDArray[Any]":
    """A new row-major array in page-locked memory; in ordinary memory if there is no GPU.

    The GPU copies page-locked memory itself, at the rate of its link and without a core: use it for
    all three of `matmul(a, b, out=c)`. Locking memory takes a while, and it all stays in RAM, so
    make such arrays once and use them often. The elements are uninitialized.

    Args:
        shape: Elements along each axis.
        dtype: One of the element types that are multiplied.

    Raises:
        wavetrim.scheduler.errors.FieldError: A ValueError. The shape or the element type is
            refused.
        wavetrim.kernels.errors.DeviceFailure: There is not enough memory to lock.

    Examples:
        >>> import wavetrim
        >>> wavetrim.empty((2, 3)).dtype
        dtype('float32')
        >>> wavetrim.empty(5, "bool")
        Traceback (most recent call last):
        wavetrim.scheduler.errors.ProblemError: dtype is 'bool'; it must be one of float16,
        bfloat16, float32, float64, complex64, complex128, int8, int16, int32, int64, uint8, uint16,
        uint32, uint64
    """
    from wavetrim.scheduler.local.empty import make_array

    return make_array(_read_options, shape, dtype)


@cache
def _import_multiply() -> Any:
    """Cached, because at the very end of a process nothing can be imported."""
    from wavetrim.scheduler.local.matmul import multiply

    return multiply


def _read_options() -> Any:
    from wavetrim.service.local_options import read_local_options

    return read_local_options()


if not TYPE_CHECKING:  # type checkers should see only the names that exist

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from wavetrim.service.version import find_version

            return find_version()
        if name in ("Client", "AsyncClient"):
            from wavetrim import client

            return getattr(client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
