"""Bytes that callers' requests hold in memory now: operands, results, uploads and leases."""

from collections.abc import Callable
from typing import Final

from wavetrim.service.errors import QuotaReached, QuotaTooSmall
from wavetrim.service.tenants.tenant import Tenant


class BytesInFlight:
    """Counts bytes by owner. To be used from one event loop."""

    def __init__(self) -> None:
        self._held: Final[dict[str, int]] = {}

    def count(self, owner: str) -> int:
        """The bytes of an owner's requests."""
        return self._held.get(owner, 0)

    @property
    def total(self) -> int:
        """The bytes of everybody's requests."""
        return sum(self._held.copy().values())

    def take(self, tenant: Tenant, size_bytes: int, held_bytes: int = 0) -> Callable[[], None]:
        """Count bytes that a request is about to take; returns a function that ends that.

        Args:
            tenant: Whose request it is.
            size_bytes: The bytes.
            held_bytes: What the request has taken before.

        Raises:
            QuotaReached: The tenant's quota has fewer left.
            QuotaTooSmall: The whole quota is less than the request takes.
        """
        total = self._held.get(tenant.name, 0) + size_bytes
        most = tenant.quota.bytes_in_flight
        if most is not None and total > most:
            limit = f"at most {most} (--max-bytes-in-flight)"
            if held_bytes + size_bytes > most:
                raise QuotaTooSmall("bytes of the request", held_bytes + size_bytes, limit)
            raise QuotaReached("bytes in flight", total, limit)
        self._held[tenant.name] = total
        return lambda: self._give(tenant.name, size_bytes)

    def _give(self, owner: str, size_bytes: int) -> None:
        left = self._held[owner] - size_bytes
        if left:
            self._held[owner] = left
        else:
            del self._held[owner]
