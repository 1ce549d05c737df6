"""Products whose way is known: those of a kind that was computed here before, beside a GPU.

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
from numpy.typing import NDArray

from wavetrim.cpu.blocks import can_share
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.host_product import PlainOperands
from wavetrim.kernels.transfer.pinned import locate
from wavetrim.native.pool import Crowd
from wavetrim.scheduler.local.machine import LEAST_PLANNED_TERMS
from wavetrim.scheduler.planning.plan import Plan

if TYPE_CHECKING:
    from wavetrim.scheduler.local.machine import LocalMachine
    from wavetrim.scheduler.local.planned import PlannedProducts

Matrix = NDArray[Any]
Addresses = tuple[int, int, int]

_KEPT: Final = 512
"""Kinds of products whose way is kept; chosen, to bound host memory."""

_CHOSEN_ANEW: Final = 8
"""One of this many products is treated as if it were new, and may get another plan, which takes a
millisecond or two where corrections have changed. Chosen."""

UNSTOPPED_SECONDS: Final = 50e-3
"""Longest predicted time of a product that ends though the interpreter exits. Chosen: to look
whether it does takes up to a millisecond of a product on a GPU (H200, 16 cores; 3d53540b)."""

Way = Callable[[Matrix, Matrix, Matrix, Addresses], bool]
"""Computes C ← αA·B, given the addresses of A, B and C; False, with nothing done, if it cannot."""


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


class Asked(NamedTuple):
    """A product that may be known: its kind, its matrices and their addresses."""

    kind: ProductKind
    a: Matrix
    b: Matrix
    c: Matrix
    addresses: Addresses


class KnownProducts:
    """The ways of the kinds of products that were computed last. Thread-safe."""

    def __init__(self, machine: "LocalMachine", planned: "PlannedProducts") -> None:
        self._machine, self._planned = machine, planned
        self._ways = LastUsed[ProductKind, Way](_KEPT)
        self._runs = 0

    def ask(
        self, a: Any, b: Any, out: Any, *, alpha: Any, beta: Any, f: Any, device: Any
    ) -> Asked | None:
        """Describe a product without other options; None unless it is one of two plain matrices.

        Args:
            a: The left operand.
            b: The right operand.
            out: Array for the result; None for a new one.
            alpha: Factor of the product.
            beta: Factor of C, which is not there.
            f: Rows that the CPU computes.
            device: The device that computes all rows.
        """
        if not (type(a) is type(b) is np.ndarray and a.ndim == b.ndim == 2):
            return None
        (m, k), n = a.shape, b.shape[1]
        if not (type(alpha) is type(beta) is float and beta == 0):
            return None
        if device is None and type(f) is int and f in (0, m):
            f, device = "auto", "cpu" if f else "gpu"
        if not (type(f) is str and f == "auto" and type(device) in (str, NoneType)):
            return None
        c = np.empty((m, n), a.dtype) if out is None else out
        if type(c) is not np.ndarray:
            return None
        addresses, is_pinned = locate(a, b, c)
        # A GPU copies page-locked memory without a core, and a small product needs only this one.
        crowd: Crowd | None = None
        if not is_pinned and m * n * k >= LEAST_PLANNED_TERMS:
            crowd = self._machine.find_crowd() if can_share(m, n, k) else "quiet"
        kind = ProductKind(a.shape, b.shape, a.dtype, alpha, is_pinned, device, crowd)
        return Asked(kind, a, b, c, addresses)

    def multiply(self, asked: Asked) -> bool:
        """Compute a product in its C; False, with nothing done, if its way is not known."""
        kind, a, b, c, addresses = asked
        way = self._ways.find(kind)
        self._runs += 1
        return not (way is None or self._runs % _CHOSEN_ANEW == 0) and way(a, b, c, addresses)

    def keep_numpy(self, kind: ProductKind, crowd: Crowd | None) -> None:
        """Let NumPy compute the next products of a kind, by `call_blas` with this crowd.

        Not if that depends on who has the cores, and the kind does not tell.
        """
        if kind.crowd is not None or kind.is_tiny:
            machine = self._machine
            compute = partial(machine.call_blas, crowd, machine.numpy.multiply)
            self._ways.keep(kind, partial(_run, kind.describe_operands(), compute))

    def keep_plan(self, kind: ProductKind, plan: Plan) -> None:
        """Let a plan, which has run, divide the next products of a kind."""
        way = self._find_short_way(kind, plan)
        if way is not None:
            self._ways.keep(kind, partial(self._planned.run_alone, self._run_timed, way, plan))
        else:
            self._ways.keep(kind, partial(self._run_plan, kind, kind.describe_operands(), plan))

    def _find_short_way(self, kind: ProductKind, plan: Plan) -> Way | None:
        """The way of a plan for one device, without the checks of other runs."""
        if plan.uncorrected.total_seconds > UNSTOPPED_SECONDS:
            return None
        executor = self._planned.executor
        if not plan.gpu_rows and not kind.is_pinned:
            compute = partial(executor.pool.multiply, alpha=kind.alpha)
            return partial(_run, kind.describe_operands(), compute)
        is_crowded = kind.crowd not in (None, "quiet")
        product = executor.gpus.find_product(plan, kind.alpha, is_crowded=is_crowded)
        return None if product is None else product.run

    def _run_timed(self, way: Way, plan: Plan, *product: Any) -> bool:
        """Take a short way, and note its time; no other product runs, or is waited for."""
        started = time.perf_counter()
        is_done = way(*product)
        if is_done:
            self._planned.executor.note(plan, time.perf_counter() - started)
        return is_done

    def _run_plan(
        self, kind: ProductKind, operands: PlainOperands, plan: Plan, *product: Any
    ) -> bool:
        """Take the way of a plan, if the CPU's part of a split finds its cores."""
        if kind.is_pinned and plan.f and self._machine.find_crowd() != "quiet":
            return False
        compute = partial(self._planned.run, plan, alpha=kind.alpha, beta=0.0)
        return _run(operands, compute, *product)


def _run(operands: PlainOperands, compute: Callable[..., object], *product: Any) -> bool:
    a, b, c, addresses = product
    if operands.locate(a, b, c, addresses) is None:
        return False
    compute(a, b, c)
    return True
