"""Products whose way is known: those of a kind that was computed here before.

NumPy's rules and the look-up of a plan take 50 µs, and 0.3 ms once other work has filled the
caches, as much as a small product. So the way that a product took is kept by its kind, and the next
one of that kind takes it at once.
"""

import time
from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wavetrim.cpu.products import multiply_quietly
from wavetrim.kernels.last_used import LastUsed
from wavetrim.native.plain import Addresses, Matrix, PlainOperands, find_addresses
from wavetrim.native.pool import Crowd

if TYPE_CHECKING:
    from wavetrim.scheduler.local.machine import LocalMachine
    from wavetrim.scheduler.planning.plan import Plan

LEAST_PLANNED_TERMS: Final = 1 << 19
"""Terms, M N K, below which no GPU is asked for: a core takes about 10 µs, a GPU's call 30. Chosen:
to find a plan would take longer than the product. OpenBLAS, too, computes such matrices in one
thread, but no vectors."""

_KEPT: Final = 512
"""Kinds of products whose way is kept; chosen, to bound host memory."""

_CHECKED_EVERY: Final = 4
"""One of this many products of a kind gets another plan, where corrections have changed since its
own was chosen. That takes a millisecond or two. Chosen."""

UNSTOPPED_SECONDS: Final = 50e-3
"""Longest predicted time of a product that ends though the interpreter exits. Chosen: to look
whether it does takes up to a millisecond of a product on a GPU (H200, 16 cores; 3d53540b)."""

Compute = Callable[[Matrix, Matrix, Matrix, Addresses | None], bool]
"""Computes C ← αA·B for row-major A and B of one type, given the addresses of A, B and C (None if C
is new); False, with nothing done, if it cannot."""


class ProductKind(NamedTuple):
    """What decides how A·B is computed, without C and options.

    Attributes:
        a_shape: Shape of A.
        b_shape: Shape of B.
        dtype: Element type of A.
        alpha: Factor of the product.
        is_pinned: Whether all three matrices are in page-locked memory.
        device: "cpu" or "gpu" if that is to compute all rows; None for the best.
        crowd: Who else wants the cores, where that matters.
    """

    a_shape: tuple[int, int]
    b_shape: tuple[int, int]
    dtype: np.dtype[Any]
    alpha: float
    is_pinned: bool
    device: str | None
    crowd: Crowd | None

    @property
    def is_tiny(self) -> bool:
        """Whether no GPU is asked for it, unless the caller does."""
        return self.a_shape[0] * self.a_shape[1] * self.b_shape[1] < LEAST_PLANNED_TERMS

    def describe_operands(self) -> PlainOperands:
        """The condition for taking a way that is known."""
        (m, k), (_, n) = self.a_shape, self.b_shape
        return PlainOperands((m, n, k), self.dtype.name)


class _Way:
    """How the products of a kind are computed, by which plan if there is one, and how many were."""

    __slots__ = ("compute", "plan", "products")

    def __init__(self, compute: Compute, plan: "Plan | None") -> None:
        self.compute, self.plan, self.products = compute, plan, 0


class KnownProducts:
    """The ways of the kinds of products that were computed last. Thread-safe."""

    def __init__(self, machine: "LocalMachine") -> None:
        self._machine = machine
        self._ways = LastUsed[ProductKind, _Way](_KEPT)
        self._were_locked: Callable[..., bool] | None = None
        if machine.has_gpu:
            from wavetrim.kernels.transfer.pinned import were_locked

            self._were_locked = were_locked

    def multiply(
        self, a: Any, b: Any, out: Any, *, alpha: Any, beta: Any, f: Any, device: Any
    ) -> tuple[Matrix | None, ProductKind | None]:
        """Compute a product without other options, if its way is known.

        One long function, because calls of Python would take most of its time.

        Args:
            a: The left operand.
            b: The right operand.
            out: Array for the result; None for a new one.
            alpha: Factor of the product.
            beta: Factor of C, which is not there.
            f: Rows that the CPU computes.
            device: The device that computes all rows.

        Returns:
            C, or None; and the kind of the product, or None unless it is one of two plain matrices.
        """
        is_array = type(a) is type(b) is np.ndarray and type(out) in (np.ndarray, NoneType)
        if not (is_array and type(alpha) is type(beta) is float):
            return None, None
        is_plain = a.flags.c_contiguous and b.flags.c_contiguous and a.dtype is b.dtype
        if not is_plain or a.ndim != 2 or b.ndim != 2 or beta != 0:
            return None, None
        (m, k), n = a.shape, b.shape[1]
        if device is None and type(f) is int and f in (0, m):
            f, device = "auto", "cpu" if f else "gpu"
        if not (type(f) is str and f == "auto" and type(device) in (str, NoneType)):
            return None, None
        addresses, is_pinned = None, False
        if out is not None:
            addresses = find_addresses(a, b, out)
            is_pinned = self._were_locked is not None and self._were_locked((a, b, out), addresses)
        # A GPU copies page-locked memory without a core, and a tiny product needs only this one.
        needs_cores = not is_pinned and m * n * k >= LEAST_PLANNED_TERMS
        crowd = self._machine.find_crowd() if needs_cores else None
        kind = ProductKind(a.shape, b.shape, a.dtype, alpha, is_pinned, device, crowd)
        way = self._ways.find(kind)
        if way is None:
            return None, kind
        way.products += 1
        if way.products % _CHECKED_EVERY == 0 and not self._is_current(way.plan):
            return None, kind
        c = np.empty((m, n), a.dtype) if out is None else out
        return (c, None) if way.compute(a, b, c, addresses) else (None, kind)

    def _is_current(self, plan: "Plan | None") -> bool:
        """Whether a plan would be chosen again."""
        return plan is None or self._machine.planned.is_current(plan)

    def keep_numpy(self, kind: ProductKind, crowd: Crowd | None, plan: "Plan | None") -> None:
        """Let NumPy compute the next products of a kind, by `call_blas` with this crowd.

        Not if that depends on who has the cores, and the kind does not tell.
        """
        if kind.crowd is not None or kind.is_tiny:
            machine = self._machine
            # Its time tells who has the cores, if threads share it and are not counted.
            is_silent = kind.is_tiny or machine.has_gpu
            numpy = multiply_quietly if is_silent else machine.numpy.multiply
            compute = partial(machine.call_blas, crowd, numpy)
            self._ways.keep(kind, _Way(partial(_run, kind.describe_operands(), compute), plan))

    def keep_plan(self, kind: ProductKind, plan: "Plan") -> None:
        """Let a plan, which has run, divide the next products of a kind."""
        compute = self._find_short_way(kind, plan)
        if compute is not None:
            compute = partial(self._machine.planned.run_alone, self._run_timed, compute, plan)
        else:
            compute = partial(self._run_plan, kind, kind.describe_operands(), plan)
        self._ways.keep(kind, _Way(compute, plan))

    def _find_short_way(self, kind: ProductKind, plan: "Plan") -> Compute | None:
        """The way of a plan for one device, without the checks of other runs."""
        if plan.uncorrected.total_seconds > UNSTOPPED_SECONDS:
            return None
        executor = self._machine.planned.executor
        if not plan.gpu_rows and not kind.is_pinned:
            compute = partial(executor.pool.multiply, alpha=kind.alpha)
            return partial(_run, kind.describe_operands(), compute)
        is_crowded = kind.crowd not in (None, "quiet")
        product = executor.gpus.find_product(plan, kind.alpha, is_crowded=is_crowded)
        return None if product is None else product.run

    def _run_timed(self, compute: Compute, plan: "Plan", *product: Any) -> bool:
        """Take a short way, and note its time; no other product runs, or is waited for."""
        started = time.perf_counter()
        is_done = compute(*product)
        if is_done:
            self._machine.planned.executor.note(plan, time.perf_counter() - started)
        return is_done

    def _run_plan(
        self, kind: ProductKind, operands: PlainOperands, plan: "Plan", *product: Any
    ) -> bool:
        """Take the way of a plan, if the CPU's part of a split finds its cores."""
        if kind.is_pinned and plan.f and self._machine.find_crowd() != "quiet":
            return False
        compute = partial(self._machine.planned.run, plan, alpha=kind.alpha, beta=0.0)
        return _run(operands, compute, *product)


def _run(operands: PlainOperands, compute: Callable[..., object], *product: Any) -> bool:
    a, b, c, addresses = product
    if addresses is not None and operands.locate(a, b, c, addresses) is None:
        return False
    compute(a, b, c)
    return True
