"""The database's tables. Times are UTC seconds since the epoch; ids are opaque strings.

To change them, also add a file to `migrations/versions/` that changes an existing database, and its
number to `schema.REVISIONS`. Columns that were added later are nullable: NULL means what earlier
versions did.
"""

import hashlib
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
    true,
)

UNFINISHED: Final = ("queued", "running")
"""States of jobs that still need their operands."""

metadata = MetaData()

VERSION_TABLE: Final = "schema_version"
"""The table that says which version the others are of; Alembic writes its one row."""


def _index_owned(name: str, *columns: str) -> Index:
    """An index of rows with an owner; it costs a service with one tenant nothing."""
    named = text("owner IS NOT NULL")
    return Index(name, "owner", *columns, sqlite_where=named, postgresql_where=named)


schema_version = Table(VERSION_TABLE, metadata, Column("version_num", String(32), primary_key=True))

identity = Table(
    "identity",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("written_at", Float, nullable=True),  # the last write that only tried whether one works
)

matrices = Table(
    "matrices",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("columns", BigInteger, nullable=False),
    Column("dtype", String(16), nullable=False),
    Column("fortran_order", Boolean, nullable=False),
    Column("offset_bytes", Integer, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("digest_sha256", String(64), nullable=True),
    Column("created_at", Float, nullable=False),
    Column("crc32", BigInteger, nullable=True),  # of the whole file
    Column("place", String(8), nullable=True),  # "disk" or "memory"; NULL is the disk
    Column("damaged_at", Float, nullable=True),  # when its file was found to have changed
    Column("owner", String(320), nullable=True),  # a tenant's name; NULL is the one without
    Column("stack", BigInteger, nullable=True),  # its matrices; NULL is a single one
    Index("matrices_age", "created_at", "id"),
    _index_owned("matrices_owner", "created_at", "id", "size_bytes"),
)

unsynced_files = Table(  # small files that a power cut may undo; a start writes them anew
    "unsynced_files",
    metadata,
    Column("matrix", String(40), ForeignKey("matrices.id", ondelete="CASCADE"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

upload_keys = Table(
    "upload_keys",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("matrix", String(40), ForeignKey("matrices.id", ondelete="CASCADE"), nullable=False),
    Column("digest_sha256", String(64), nullable=False),
    Index("upload_keys_matrix", "matrix"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("scopes", String(64), nullable=False),
    Column("digest_sha256", String(64), nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float, nullable=True),
    Column("max_stored_bytes", BigInteger, nullable=True),  # quotas; NULL is none
    Column("max_queued_jobs", BigInteger, nullable=True),
    Column("max_bytes_in_flight", BigInteger, nullable=True),
)

_JSON = JSON(none_as_null=True)

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # where only INTEGER counts up by itself

jobs = Table(
    "jobs",
    metadata,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("state", String(16), nullable=False),
    Column("priority", Integer, nullable=False, default=0),
    Column("request", JSON, nullable=False),
    Column("a", String(40), nullable=False),
    Column("b", String(40), nullable=False),
    Column("c", String(40), nullable=True),
    Column("result", String(40), nullable=True),
    Column("progress", Float, nullable=False, default=0.0),
    Column("attempts", Integer, nullable=False, default=0),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("plan", _JSON, nullable=True),
    Column("timings", _JSON, nullable=True),
    Column("verification", _JSON, nullable=True),
    Column("error", _JSON, nullable=True),
    Column("idempotency_key", String(255), nullable=True),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float, nullable=True),
    Column("finished_at", Float, nullable=True),
    Column("owner", String(320), nullable=True),  # as a matrix's
    Column("trace", String(55), nullable=True),  # W3C traceparent of its request
    Column("shape", _JSON, nullable=True),  # that of its result (`Job.shape`)
    UniqueConstraint("idempotency_key", name="jobs_idempotency_key"),
    Index("jobs_queue", "state", "priority", "sequence"),
    _index_owned("jobs_owner", "sequence"),
    _index_owned("jobs_owner_state", "state", "sequence"),
    Index("jobs_state", "state", "sequence"),  # pages of one state, newest first
    Index("jobs_end", "finished_at"),  # those that ended long ago
)

job_labels = Table(
    "job_labels",
    metadata,
    Column("label", String(64), primary_key=True),
    Column("job", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Index("job_labels_job", "job"),
)


def is_owned(table: Table, owner: str | None) -> ColumnElement[bool]:
    """The rows of an owner; None for everybody's. Rows of the one tenant have NULL as owner."""
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
