"""API keys of several callers: named, stored as a hash, revoked by name; and as read by a service.

A key is 256 random bits, shown once when it is made. Nobody can guess that many, so its plain
SHA-256 is stored: a slow hash would add nothing.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from sqlalchemy import Engine, Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from wavetrim.service.clock import read_clock
from wavetrim.service.errors import FieldProblem
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import api_keys
from wavetrim.service.tenants.tenant import NO_QUOTA, SCOPES, Quota, Tenant
from wavetrim.service.threads import run_to_end

logger = logging.getLogger(__name__)

_PREFIX: Final = "wavetrim_"
_SECRET_BYTES: Final = 32

_QUOTAS: Final = {field.name: f"max_{field.name}" for field in fields(Quota)}
"""The columns of quotas."""

_PERIOD_SECONDS: Final = 1.0
"""How long a change of keys may go unnoticed while the database answers; chosen."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, without the secret itself.

    Attributes:
        tenant: The caller, which has the key's name.
        digest_sha256: SHA-256 of the key, in hexadecimal.
        created_at: UTC seconds since the epoch.
        revoked_at: When it was revoked, in the same unit.
    """

    tenant: Tenant
    digest_sha256: str
    created_at: float
    revoked_at: float | None


def digest_key(secret: bytes) -> str:
    """The digest that is stored in place of a key."""
    return hashlib.sha256(secret).hexdigest()


def add_key(database: Engine, name: str, scopes: Collection[str], quota: Quota = NO_QUOTA) -> str:
    """Makes a key and returns it; it cannot be read later.

    Args:
        database: The service's database.
        name: The tenant's name.
        scopes: What it may do.
        quota: The most that it may have.

    Raises:
        FieldProblem: The name had a key before. Names are not used again, so logs stay clear.
    """
    secret = _make_secret()
    row = {
        "name": name,
        "scopes": ",".join(scope for scope in SCOPES if scope in scopes),
        "digest_sha256": digest_key(secret.encode()),
        "created_at": read_clock(),
        **{_QUOTAS[field]: most for field, most in asdict(quota).items()},
    }
    try:
        with database.begin() as connection:
            connection.execute(insert(api_keys).values(row))
    except IntegrityError as error:
        raise FieldProblem("name", name, "one that has no key, and had none") from error
    return secret


def renew_key(database: Engine, name: str) -> str:
    """Makes another key for a name that has one, revoked or not, and returns it.

    The old key is refused from now on; what belongs to the name still does.

    Raises:
        FieldProblem: The name has no key.
    """
    secret = _make_secret()
    _change_key(database, name, digest_sha256=digest_key(secret.encode()), revoked_at=None)
    return secret


def limit_key(database: Engine, name: str, most: Mapping[str, int | None]) -> None:
    """Changes quotas of a key: those that are named, by the fields of `Quota`.

    Raises:
        FieldProblem: The name has no key.
    """
    _change_key(database, name, **{_QUOTAS[field]: count for field, count in most.items()})


def list_keys(database: Engine) -> list[ApiKey]:
    """All keys, revoked ones included, oldest first."""
    with reading(database) as connection:
        rows = connection.execute(select(api_keys).order_by(api_keys.c.created_at))
        return [_read_row(row) for row in rows]


def revoke_key(database: Engine, name: str) -> None:
    """Has a key refused from now on; a second call changes nothing.

    Raises:
        FieldProblem: The name has no key.
    """
    now = func.coalesce(api_keys.c.revoked_at, read_clock())
    _change_key(database, name, revoked_at=now)


def _change_key(database: Engine, name: str, **columns: Any) -> None:
    """Changes columns of a key's row."""
    changed = update(api_keys).where(api_keys.c.name == name).values(**columns)
    with database.begin() as connection:
        if connection.execute(changed).rowcount == 0:
            raise FieldProblem("name", name, "that of a key")


def _make_secret() -> str:
    return _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def _read_row(row: Row[Any]) -> ApiKey:
    quota = Quota(**{field: getattr(row, column) for field, column in _QUOTAS.items()})
    tenant = Tenant(row.name, frozenset(row.scopes.split(",")), quota)
    return ApiKey(tenant, row.digest_sha256, row.created_at, row.revoked_at)


class KeyRing:
    """The keys of the database as they were last read. To be used from one event loop.

    Attributes:
        empty: Whether no key was ever made, so that none is needed. Revoked keys count, too:
            revoking the last key must not open the service.
    """

    def __init__(self) -> None:
        self._keys: Mapping[str, ApiKey] = {}
        self.empty = True

    def find(self, secret: bytes) -> ApiKey | None:
        """The key, revoked or not; None if there is none."""
        # It is found by its digest, so the time that it takes says nothing about any key.
        return self._keys.get(digest_key(secret))

    def read(self, database: Engine) -> None:
        """Reads the keys."""
        self._keys = {key.digest_sha256: key for key in list_keys(database)}
        self.empty = not self._keys

    async def watch(self, database: Engine) -> None:
        """Reads the keys again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                await run_to_end(self.read, database)
            except SQLAlchemyError as error:
                logger.warning("the keys are those of before, the database is away: %s", error)
