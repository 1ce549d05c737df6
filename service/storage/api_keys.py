"""Keys of several callers: named, hashed at rest, revoked by name.

A key is 256 random bits, shown once when it is made. So its plain SHA-256 is kept: there is no
guessing what a slow hash would slow down.
"""

import hashlib
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from wavetrim.service.errors import KeyNameTaken, KeyNotFound
from wavetrim.service.storage.database import reading
from wavetrim.service.storage.tables import api_keys

SCOPES: Final = ("read", "compute", "admin")
"""read: whatever only looks. compute: whatever makes, computes or removes. admin: all, /metrics."""

_PREFIX: Final = "wavetrim_"
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, as far as it is known after it was made.

    Attributes:
        name: Its caller's name.
        scopes: What it may be used for, of `SCOPES`.
        digest_sha256: SHA-256 of the key, in hexadecimal.
        created_at: UTC seconds since the epoch.
        revoked_at: The same, once it is not taken any more.
    """

    name: str
    scopes: frozenset[str]
    digest_sha256: str
    created_at: float
    revoked_at: float | None

    def allows(self, scope: str) -> bool:
        """Whether it may be used for something that needs a scope."""
        return self.revoked_at is None and (scope in self.scopes or "admin" in self.scopes)


def digest_key(secret: bytes) -> str:
    """What is kept of a key."""
    return hashlib.sha256(secret).hexdigest()


def add_key(database: Engine, name: str, scopes: Collection[str]) -> str:
    """Makes a key and returns it: nobody can read it later.

    Raises:
        KeyNameTaken: The name had a key before. Names are not used again, so logs stay clear.
    """
    secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    row = {
        "name": name,
        "scopes": ",".join(scope for scope in SCOPES if scope in scopes),
        "digest_sha256": digest_key(secret.encode()),
        "created_at": time.time(),
    }
    try:
        with database.begin() as connection:
            connection.execute(insert(api_keys).values(row))
    except IntegrityError as error:
        raise KeyNameTaken("name", name, "one that has no key, and had none") from error
    return secret


def list_keys(database: Engine) -> list[ApiKey]:
    """All keys, revoked ones included, oldest first."""
    with reading(database) as connection:
        rows = connection.execute(select(api_keys).order_by(api_keys.c.created_at))
        return [_read_row(row) for row in rows]


def revoke_key(database: Engine, name: str) -> None:
    """Has a key not be taken any more; a second call changes nothing.

    Raises:
        KeyNotFound: The name has no key.
    """
    found = api_keys.c.name == name
    with database.begin() as connection:
        if connection.execute(select(api_keys.c.name).where(found)).first() is None:
            raise KeyNotFound("name", name, "that of a key")
        connection.execute(
            update(api_keys)
            .where(found, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=time.time())
        )


def _read_row(row: Row[Any]) -> ApiKey:
    described = dict(row._mapping)
    described["scopes"] = frozenset(row.scopes.split(","))
    return ApiKey(**described)
