"""Owners of rows. Rows of the one tenant have NULL as owner, as in earlier versions."""

import hashlib
from typing import Any

from sqlalchemy import ColumnElement, Table, true


def is_owned(table: Table, owner: str | None) -> ColumnElement[bool]:
    """The rows of an owner; None for everybody's."""
    if owner is None:
        return true()
    return table.c.owner == owner if owner else table.c.owner.is_(None)


def read_owner(columns: dict[str, Any]) -> dict[str, Any]:
    """A row's columns, with an empty name as the owner if it is NULL."""
    return columns | {"owner": columns["owner"] or ""}


def scope_key(owner: str, key: str) -> str:
    """An Idempotency-Key as it is stored, different for each owner.

    The one tenant's is stored as it is; others begin with a character that no key may have.
    """
    if not owner:
        return key
    return "\n" + hashlib.sha256(f"{owner}\n{key}".encode()).hexdigest()
