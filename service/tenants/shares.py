"""Places of one kind, of which one caller never has all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wavetrim.service.errors import Crowded, QuotaReached

PARTS: Final = 4
"""A caller with a name may have one of so many parts of the places, and at least one; chosen."""


class Shares:
    """Counts who has places. To be used from one event loop.

    Callers without a name may have all places: with the service's own key they may do anything, and
    without any key they cannot be told apart.

    Args:
        name: What takes a place, in the plural.
        most: How many places there are.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._held: Counter[str] = Counter()

    @contextmanager
    def take(self, caller: str) -> Iterator[None]:
        """A place during the block.

        Raises:
            QuotaReached: The caller has its share.
            Crowded: All places are taken.
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
