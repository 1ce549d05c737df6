"""Shares of what there is a limited number of: one caller never has all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wavetrim.service.errors import Crowded, QuotaReached

PARTS: Final = 4
"""A caller with a name may have this part of all, a quarter, and at least one; chosen."""


class Shares:
    """Counts who has how many. To be used from one event loop.

    Callers without a name may have all: with the service's own key they may do anything, and
    without any key they cannot be told apart.

    Args:
        name: What is counted, in the plural.
        most: How many there may be.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._held: Counter[str] = Counter()

    @contextmanager
    def take(self, caller: str) -> Iterator[None]:
        """Have one during the block.

        Raises:
            QuotaReached: The caller has its share.
            Crowded: All are taken.
        """
        share = max(1, self._most // PARTS)
        if caller and self._held[caller] >= share:
            limit = f"at most {share}, the key's share of {self._most}"
            raise QuotaReached(f"{self._name} of the key", share + 1, limit)
        if self._held.total() >= self._most:
            raise Crowded(self._name, self._most + 1, f"at most {self._most}")
        self._held[caller] += 1
        try:
            yield
        finally:
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]
