"""Bytes that callers' requests hold in memory now: operands, results, uploads and leases."""

from collections.abc import Callable
from typing import Final

from wavetrim.service.errors import QuotaReached
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

    def take(self, tenant: Tenant, size_bytes: int) -> Callable[[], None]:
        """Count bytes that a request is about to take; returns a function that ends that.

        Raises:
            QuotaReached: The tenant's quota has fewer left.
        """
        total = self._held.get(tenant.name, 0) + size_bytes
        most = tenant.quota.bytes_in_flight
        if most is not None and total > most:
            raise QuotaReached("bytes in flight", total, f"at most {most} (--max-bytes-in-flight)")
        self._held[tenant.name] = total
        return lambda: self._give(tenant.name, size_bytes)

    def _give(self, owner: str, size_bytes: int) -> None:
        left = self._held[owner] - size_bytes
        if left:
            self._held[owner] = left
        else:
            del self._held[owner]
