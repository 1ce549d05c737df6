"""Rows of a product that another device may take, too."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Where a pipeline gets its rows from, panel by panel.

    Attributes:
        planned: Rows that it is likely to get.
        take: Called with a number of rows; returns the next ones, from the top and at most so
            many. Without any it has none left, and is called no more.
    """

    planned: int
    take: Callable[[int], range]
