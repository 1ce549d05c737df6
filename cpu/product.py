"""A product as a pool is asked for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from wavetrim.cpu.products import Matrix

TakeRows: TypeAlias = Callable[[float], range]
"""The next rows of C to compute, given an estimate of those in hand; none behind the last."""


@dataclass(frozen=True, slots=True)
class Product:
    """C ← αA·B + βC, some rows of it, by some threads.

    Attributes:
        a: A[M,K].
        b: B[K,N].
        c: C[M,N].
        alpha: Factor of the product.
        beta: Factor of the old C.
        take: Called by one thread at a time, whichever it is.
        likely_rows: Rows that `take` is likely to give in all, or None.
        threads: Threads that take part, the caller's among them.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    alpha: float
    beta: float
    take: TakeRows
    likely_rows: int | None
    threads: int
