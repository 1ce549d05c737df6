"""A tenant: a caller, which owns the matrices, jobs and leases that it makes.

A tenant has the name of its key. Callers with the key of WAVETRIM_API_KEY, and callers of a service
that asks for no key, are one tenant without a name.
"""

from dataclasses import dataclass
from typing import Final

SCOPES: Final = ("read", "compute", "admin")
"""read: calls that change nothing. compute: calls that make, compute or remove. admin: both, on
what belongs to any tenant, and /metrics."""


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
