"""Rows that a CPU pool takes part by part."""

from collections.abc import Callable, Iterable
from itertools import pairwise


def give(parts: Iterable[range]) -> Callable[[float], range]:
    """A `take` that hands out these parts."""
    left = iter(parts)
    return lambda _: next(left, range(0))


def cut_at(rows: int, edges: list[int]) -> list[range]:
    """All rows, cut at the edges; the last part first."""
    stops = sorted({0, rows, *edges})
    return [range(*pair) for pair in pairwise(stops)][::-1]
