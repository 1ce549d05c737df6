"""Leases: memory that a caller on this host maps itself, so that none of its bytes are sent.

Each lease is a slab of its own in new memory, never memory that others have used: a caller who has
the descriptor keeps access for good. The service keeps nothing of its own in it, so an owner who
changes the bytes changes only the owner's products.
"""

import asyncio
import secrets
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from wavetrim.service.descriptors import Descriptors
from wavetrim.service.errors import Crowded
from wavetrim.service.storage.errors import LeaseNotFound
from wavetrim.service.storage.memory.arena import Arena
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.storage.memory.slab import Slab, round_up
from wavetrim.service.tenants.tenant import ONE_TENANT, BytesInFlight, Tenant

FETCH_SECONDS: Final = 10.0
"""A lease ends if its descriptor is not fetched by then; chosen."""


class Lease:
    """A caller's memory.

    Attributes:
        id: How requests name it.
        owner: Name of the tenant to whom it belongs.
        slab: The memory.
        extent: All of it, in which products are computed.
        made_at: When it was made, by the monotonic clock.
        ended: Whether it has ended; products that are being computed still use its memory.
        on_end: Called once when it has ended.
    """

    __slots__ = ("_hold", "ended", "extent", "id", "made_at", "on_end", "owner", "slab")

    def __init__(self, slab: Slab, free: Callable[[], None], owner: str) -> None:
        self.id = uuid.uuid4().hex
        self.owner = owner
        self.slab = slab
        self.extent = Extent(slab.id, 0, slab.view, free)
        self.made_at = time.monotonic()
        self.ended = False
        self.on_end: Callable[[], None] = lambda: None
        self._hold = self.extent.hold("lease")

    def end(self) -> None:
        """Give the memory back as soon as nobody holds it; a second call does nothing."""
        if not self.ended:
            self.ended = True
            self._hold.release()
            self.on_end()


class Leases:
    """All leases of a service. To be used from one event loop.

    Args:
        arena: Makes and counts their memory.
        in_flight: Counts it for each tenant.
        descriptors: Counts those of the memory.
    """

    def __init__(self, arena: Arena, in_flight: BytesInFlight, descriptors: Descriptors) -> None:
        self._arena = arena
        self._in_flight = in_flight
        self._descriptors = descriptors
        self._count = 0  # of leases whose memory is not given back
        self._leases: dict[str, Lease] = {}
        self._waiting: dict[str, tuple[Lease, asyncio.TimerHandle]] = {}

    async def make(self, size_bytes: int, tenant: Tenant = ONE_TENANT) -> tuple[Lease, str]:
        """A new lease, and the secret with which its descriptor is fetched once.

        Raises:
            QuotaReached: The tenant may not have as much at once.
            StorageFull: The arena may not take as much.
            Crowded: There are too many leases, or too few descriptors.
        """
        if self._count >= self._descriptors.few:
            limit = (
                f"at most {self._descriptors.few}, for the descriptors of all others (ulimit -n)"
            )
            raise Crowded("leases", self._count + 1, limit)
        with ExitStack() as taken:
            taken.callback(self._descriptors.take(tenant.name, "leases"))
            taken.callback(self._in_flight.take(tenant, round_up(size_bytes)))
            self._count += 1
            taken.callback(self._uncount)
            slab = await self._arena.lease(size_bytes)
            give_back = taken.pop_all().close
        free = partial(self._arena.end_lease, slab, on_closed=give_back)
        lease = Lease(slab, free, tenant.name)
        token = secrets.token_urlsafe(32)
        timer = asyncio.get_running_loop().call_later(FETCH_SECONDS, self._expire, token)
        self._leases[lease.id] = lease
        self._waiting[token] = (lease, timer)
        return lease, token

    def claim(self, token: str) -> Lease | None:
        """The lease of a secret, which cannot be used again; None if there is none."""
        lease, timer = self._waiting.pop(token, (None, None))
        if timer is not None:
            timer.cancel()
        return None if lease is None or lease.ended else lease

    def get(self, lease_id: str, owner: str | None = None) -> Lease:
        """The lease of this id.

        Args:
            lease_id: The id.
            owner: Whose it must be; None for anybody's.

        Raises:
            LeaseNotFound: There is none, or it has ended.
        """
        lease = self._leases.get(lease_id)
        if lease is None or owner not in (None, lease.owner):
            raise LeaseNotFound(lease_id)
        return lease

    def end(self, lease: Lease) -> None:
        """End a lease: it cannot be named, and its memory is given back once nobody holds it."""
        self._leases.pop(lease.id, None)
        lease.end()

    def list(self, owner: str | None = None) -> tuple[Lease, ...]:
        """The leases of an owner, or of everybody, the oldest first."""
        return tuple(lease for lease in self._leases.values() if owner in (None, lease.owner))

    def _uncount(self) -> None:
        self._count -= 1

    def _expire(self, token: str) -> None:
        lease, _ = self._waiting.pop(token)
        self.end(lease)
