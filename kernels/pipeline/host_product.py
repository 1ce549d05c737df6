"""A product whose operands are in host memory, what it calls meanwhile, and its times."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from wavetrim.kernels.errors import OperandError, PipelineCancelled
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.schedule.panels import PanelProblem, describe_product
from wavetrim.kernels.schedule.steps import Step
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.transfer.pinned import is_locked
from wavetrim.native.element_types import find_accumulator, find_dtype
from wavetrim.native.plain import Matrix, find_address

AWAKE_PRODUCT_BYTES: Final = 512 << 20  # bytes
"""Largest A, B and C together for which the calling thread waits without naps. Chosen: their
transfers take about 10 ms, a nap 0.1 ms."""


class GpuTimings(NamedTuple):
    """Times of one product on the device, by CUDA events.

    Attributes:
        kernel_seconds: Kernels, summed over the steps; None if the product was not timed.
        transfer_seconds: Transfers both ways, likewise; they overlap kernels and each other.
        gpu_seconds: From the start of the first transfer to the end of the last; if the product was
            not timed, from the call to its end.
    """

    kernel_seconds: float | None
    transfer_seconds: float | None
    gpu_seconds: float


class HostOperand(NamedTuple):
    """A, B or C in host memory.

    Attributes:
        address: Address of its first element.
        pitch_bytes: Row stride in bytes.
        stride_bytes: Column stride in bytes.
        is_pinned: Whether the GPU copies it by itself: page-locked rows of adjacent elements.
    """

    address: int
    pitch_bytes: int
    stride_bytes: int
    is_pinned: bool


def describe_operand(matrix: Matrix) -> HostOperand:
    """Address, strides and kind of memory of a matrix."""
    address, (pitch_bytes, stride_bytes) = find_address(matrix), matrix.strides
    return HostOperand(address, pitch_bytes, stride_bytes, is_locked(matrix, address))


class GpuHooks(NamedTuple):
    """What a product on a GPU calls, in the calling thread; None for what nobody asks for.

    Attributes:
        progress: Called with the rows newly finished; adds up to M.
        final: Called with the rows 0…r of C that have arrived and will not be written again.
        cancelled: Polled between panels; True ends the product.
        begun: Called once when the first copies are under way, so that work that it starts does not
            delay them. Not called if only C is scaled.
    """

    progress: Callable[[int], None] | None = None
    final: Callable[[range], None] | None = None
    cancelled: Callable[[], bool] | None = None
    begun: Callable[[], None] | None = None


NO_GPU_HOOKS: Final = GpuHooks()
"""Nobody listens."""


class HostProduct(NamedTuple):
    """C ← αA·B + βC by a GPU. As in BLAS, β = 0 never reads C, and α = 0 neither A nor B.

    A named tuple, because creating a dataclass takes longer, which counts in short products.

    Attributes:
        spec: The kernel.
        a: A[M,K] of the kernel's element type; any strides, also mapped from a file.
        b: B[K,N], likewise.
        c: C[M,N], likewise; writable, sharing no memory with A and B.
        alpha: Factor of the product.
        beta: Factor of the old C.
        hooks: What it calls.
        resident_b: B on the device, so that it is not copied in; None if it is not there.
        timed: Whether copies and kernels are timed, which delays each by some microseconds.
        sms: Limit of multiprocessors, for a kernel that `can_limit_sms`; None for all.
        copiers: Threads for copies between the caller's memory and page-locked slabs; None for all.
            Fewer leave cores to other work.
    """

    spec: KernelSpec
    a: Matrix
    b: Matrix
    c: Matrix
    alpha: float = 1.0
    beta: float = 0.0
    hooks: GpuHooks = NO_GPU_HOOKS
    resident_b: Resident | None = None
    timed: bool = False
    sms: int | None = None
    copiers: int | None = None

    @property
    def is_watched(self) -> bool:
        """Whether its caller gets reports of rows as they arrive, or may cancel it."""
        return any(self.hooks)

    @property
    def is_awaited_awake(self) -> bool:
        """Whether the calling thread polls without naps while it waits for transfers."""
        return self.copied_bytes <= AWAKE_PRODUCT_BYTES

    @property
    def copied_bytes(self) -> int:
        """Bytes of A and C, and of a B that is not resident."""
        b_bytes = self.b.nbytes if self.resident_b is None else 0
        return self.a.nbytes + b_bytes + self.c.nbytes

    def check(self) -> None:
        """Check that the kernel can compute it.

        Raises:
            OperandError: Element types or shapes do not fit, C is read-only or shares memory.
        """
        a, b, c = self.a, self.b, self.c
        dtype = find_dtype(self.spec.dtype)
        if not (a.ndim == b.ndim == c.ndim == 2 and a.dtype is b.dtype is c.dtype is dtype):
            self._check_each(dtype)
        if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]) or a.shape[1] == 0:
            raise OperandError(
                f"A is {a.shape}, B is {b.shape}, C is {c.shape}; they must be (M, K), (K, N) and "
                "(M, N) with K at least 1"
            )
        if not c.flags.writeable:
            raise OperandError("C is read-only; it must be writable")
        for name, operand in (("A", a), ("B", b)):
            # The first check compares bounds alone, which is fast.
            if np.may_share_memory(operand, c) and np.shares_memory(operand, c):
                raise OperandError(f"C shares memory with {name}; it must have memory of its own")

    def scale_c(self) -> None:
        """C ← βC: the product where α is 0."""
        c, beta, hooks = self.c, self.beta, self.hooks
        if beta == 0:
            c[...] = 0
        elif beta != 1:
            # 16-bit types cannot represent every factor: scaled in float32, as in kernels.
            factor = find_accumulator(c.dtype).type(beta)
            with np.errstate(all="ignore"):
                np.multiply(c, factor, out=c, casting="same_kind")
        if hooks.progress is not None:
            hooks.progress(c.shape[0])
        if hooks.final is not None:
            hooks.final(range(c.shape[0]))

    def _check_each(self, dtype: np.dtype[Any]) -> None:
        for name, operand in zip("ABC", (self.a, self.b, self.c), strict=True):
            if operand.ndim != 2:
                raise OperandError(f"{name} has {operand.ndim} dimensions; it must be a matrix")
            if operand.dtype != dtype:
                raise OperandError(
                    f"dtype of {name} is {operand.dtype}; {self.spec.label} takes {dtype}"
                )

    def describe_operands(self) -> tuple[HostOperand, HostOperand, HostOperand]:
        """Address and kind of memory of A, B and C, found once for all of their parts."""
        return describe_operand(self.a), describe_operand(self.b), describe_operand(self.c)

    def find_staged(self, operands: Sequence[HostOperand]) -> tuple[bool, bool, bool]:
        """Which of A, B and C must be copied, and are not page-locked."""
        a, b, c = operands
        return not a.is_pinned, not b.is_pinned and self.resident_b is None, not c.is_pinned

    def find_panels(self, sm_count: int) -> PanelProblem:
        """The description that decides how it is cut, on a GPU with `sm_count` multiprocessors."""
        slots = sm_count if self.sms is None else self.spec.count_usable_sms(self.sms, sm_count)
        shape = (*self.c.shape, self.a.shape[1])
        b_resident = self.resident_b is not None
        return describe_product(self.spec, shape, slots, b_resident=b_resident)


class ArrivedRows:
    """Tells a product's hooks which of its rows have arrived. Steps arrive in order.

    Args:
        product: The product.
    """

    def __init__(self, product: HostProduct) -> None:
        self._hooks = product.hooks
        self._columns: int = product.c.shape[1]
        self._elements = self._rows = 0

    def add(self, step: Step) -> None:
        """Note a step whose part of C has arrived."""
        self._elements += len(step.rows) * len(step.columns)
        rows = self._elements // self._columns - self._rows
        self._rows += rows
        if self._hooks.progress is not None and rows:
            self._hooks.progress(rows)
        # Results arrive from top to bottom, and in each panel from left to right.
        if self._hooks.final is not None and step.columns.stop == self._columns:
            self._hooks.final(range(step.rows.stop))

    def end_if_cancelled(self) -> None:
        """Raise an error if the product is to end.

        Raises:
            PipelineCancelled: The caller cancelled the product.
        """
        if self._hooks.cancelled is not None and self._hooks.cancelled():
            raise PipelineCancelled("the product was cancelled")
