"""A tenant: a caller, which owns the matrices, jobs and leases that it makes.

A tenant has the name of its key. Callers with the key of WAVETRIM_API_KEY, and callers of a service
that asks for no key, are one tenant without a name.

What there is a limited number of, one caller never has all of. `Shares` refuses at once, and
`Places` after a while. `BytesInFlight` counts against quotas. All are to be used from one event
loop.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from wavetrim.service.errors import Crowded, QuotaReached, QuotaTooSmall

SCOPES: Final = ("read", "compute", "admin")
"""read: calls that change nothing. compute: calls that make, compute or remove. admin: both, on
what belongs to any tenant, and /metrics."""

PARTS: Final = 4
"""A caller with a name may have this part of all, a quarter, and at least one; chosen."""

BODIES: Final = 32
"""The most bodies over 64 KiB that are received at once; chosen."""

PLACE_SECONDS: Final = 10.0
"""How long a body waits for a place; chosen. Nothing of it is received before."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that a tenant may have at once; None if only the service's own limits hold.

    Attributes:
        stored_bytes: Bytes of its matrices, on disk and in memory.
        queued_jobs: Its jobs that wait.
        bytes_in_flight: Bytes that its requests hold in memory: uploads, products in one call with
            their results, leases.
    """

    stored_bytes: int | None = None
    queued_jobs: int | None = None
    bytes_in_flight: int | None = None


NO_QUOTA: Final = Quota()


@dataclass(frozen=True, slots=True)
class Tenant:
    """A caller, by its key or token.

    Attributes:
        name: Its name, as owner of what it makes.
        scopes: What it may do, from `SCOPES`.
        quota: The most that it may have.
    """

    name: str
    scopes: frozenset[str]
    quota: Quota = NO_QUOTA

    @property
    def sees(self) -> str | None:
        """The owner whose matrices, jobs and leases it may see; None for everybody's."""
        return None if "admin" in self.scopes else self.name


ONE_TENANT: Final = Tenant("", frozenset(SCOPES))
"""The caller with the service's own key, or of a service that asks for none."""

UNKNOWN_TENANT: Final = Tenant("", frozenset())
"""A caller that has shown no key, or whose key is not checked yet."""


class Shares:
    """Counts who has how many.

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


class Places:
    """Places for bodies, first come, first served: each body holds memory and perhaps disk.

    Args:
        most: How many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._places = asyncio.Semaphore(most)
        self._shares = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """A place for one body during the block: of the caller's share, and then of all.

        Args:
            caller: Whose it is; one without a name may have all places.

        Raises:
            Crowded: All, or all of the caller's, were taken for too long.
        """
        needed = [(self._places, self._most)]
        if caller:
            share = max(1, self._most // PARTS)
            own = self._shares.setdefault(caller, asyncio.Semaphore(share))
            needed.insert(0, (own, share))
        async with AsyncExitStack() as taken:
            for places, most in needed:
                try:
                    async with asyncio.timeout(PLACE_SECONDS):
                        await taken.enter_async_context(places)
                except TimeoutError as error:
                    limit = f"at most {most}; none ended in {PLACE_SECONDS:g} s"
                    raise Crowded("bodies", most + 1, limit) from error
            yield


class BytesInFlight:
    """Counts the bytes that callers' requests hold: operands, results, uploads and leases."""

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
