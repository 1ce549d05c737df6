"""Products that come again: by shape, type and memory, the way to the GPU is known.

NumPy's rules and the look-up of a plan take some 50 µs among other work, as much as a small
product. So the way that a product took is kept, and the next of its kind takes it at once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.transfer.pinned import locate

if TYPE_CHECKING:
    from wavetrim.kernels.pipeline.direct_path import DirectProduct
    from wavetrim.kernels.pipeline.straight import StraightProduct

Array: TypeAlias = NDArray[Any]

GpuProduct: TypeAlias = "StraightProduct | DirectProduct"

_KEPT: Final = 512
"""Kinds of products that are kept; chosen, to bound host memory."""

_CHOSEN_ANEW: Final = 8
"""One of this many products is treated as if it were new: its time is noted, and it may get another
plan. Chosen."""


class KnownProducts:
    """Products of two arrays without C and without options, by their kinds. Thread-safe.

    Args:
        run_alone: Calls a function with arguments, while no other product runs.
    """

    def __init__(self, run_alone: Callable[..., Any]) -> None:
        self._run_alone = run_alone
        self._kept = LastUsed[tuple[object, ...], GpuProduct](_KEPT)
        self._runs = 0

    def multiply(self, a: Any, b: Any, out: Any, *, alpha: Any, beta: Any, f: Any) -> Array | None:
        """The product, in `out` or a new array; None, with nothing done, if its way is not known.

        Args:
            a: The left operand.
            b: The right operand.
            out: Array for the result; None for a new one.
            alpha: Factor of the product.
            beta: Factor of C.
            f: Rows that the CPU computes.
        """
        if not (type(a) is type(b) is np.ndarray and a.ndim == b.ndim == 2):
            return None
        is_usual = type(alpha) is type(beta) is float and beta == 0 and type(f) is str
        if not (is_usual and f == "auto"):
            return None
        c = np.empty((a.shape[0], b.shape[1]), a.dtype) if out is None else out
        if type(c) is not np.ndarray:
            return None
        addresses, are_locked = locate(a, b, c)
        product = self._kept.find((a.shape, b.shape, a.dtype, alpha, are_locked))
        self._runs += 1
        if product is None or self._runs % _CHOSEN_ANEW == 0:
            return None
        return c if self._run_alone(product.run, a, b, c, addresses) else None

    def keep(
        self,
        a: Array,
        b: Array,
        alpha: float,
        memory: Literal["pageable", "pinned"],
        product: GpuProduct,
    ) -> None:
        """Keep how a GPU computes products like this one, in this kind of memory."""
        self._kept.keep((a.shape, b.shape, a.dtype, alpha, memory == "pinned"), product)
