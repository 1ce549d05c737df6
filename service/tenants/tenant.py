"""Who calls: a tenant, to whom belongs what it makes.

A tenant has the name of its key. The key of WAVETRIM_API_KEY, and callers of a service that asks
for no key, are one tenant without a name.
"""

from dataclasses import dataclass
from typing import Final

SCOPES: Final = ("read", "compute", "admin")
"""read: whatever only looks. compute: whatever makes, computes or removes. admin: all of these,
whoever's it is, and /metrics."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that a tenant may have at once; None where only the service's own limits hold.

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
    """A caller, as its key or its token says.

    Attributes:
        name: Who owns what it makes.
        scopes: What it may do, of `SCOPES`.
        quota: The most that it may have.
    """

    name: str
    scopes: frozenset[str]
    quota: Quota = NO_QUOTA

    def allows(self, scope: str) -> bool:
        """Whether it may do what needs a scope."""
        return scope in self.scopes or "admin" in self.scopes

    @property
    def sees(self) -> str | None:
        """The owner whose matrices, jobs and leases are there for it; None for everybody's."""
        return None if "admin" in self.scopes else self.name


ONE_TENANT: Final = Tenant("", frozenset(SCOPES))
"""Whoever has the service's own key, or calls a service that asks for none."""
