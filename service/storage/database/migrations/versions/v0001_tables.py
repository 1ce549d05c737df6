"""All that versions without `schema_version` have made, whichever of them has: the first revision.

Each of them has added nullable columns, tables and indexes to what the one before had made. This
adds those that a database lacks. The tables are those of that time, and stay as they are.
"""

from alembic import op
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    inspect,
    text,
)

from wavetrim.service.storage.database.schema import SchemaRefused

revision = "0001"
down_revision = None

_metadata = MetaData()


def _index_owned(name: str, *columns: str) -> Index:
    """An index of what tenants with names own: a service with one tenant pays nothing for it."""
    named = text("owner IS NOT NULL")
    return Index(name, "owner", *columns, sqlite_where=named, postgresql_where=named)


identity = Table(
    "identity",
    _metadata,
    Column("id", String(40), primary_key=True),
    Column("created_at", Float, nullable=False),
    Column("written_at", Float, nullable=True),  # the last write that only tried whether one works
)

matrices = Table(
    "matrices",
    _metadata,
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
    Index("matrices_age", "created_at", "id"),
    _index_owned("matrices_owner", "created_at", "id", "size_bytes"),
)

upload_keys = Table(
    "upload_keys",
    _metadata,
    Column("key", String(255), primary_key=True),
    Column("matrix", String(40), ForeignKey("matrices.id", ondelete="CASCADE"), nullable=False),
    Column("digest_sha256", String(64), nullable=False),
    Index("upload_keys_matrix", "matrix"),
)

api_keys = Table(
    "api_keys",
    _metadata,
    Column("name", String(64), primary_key=True),
    Column("scopes", String(64), nullable=False),
    Column("digest_sha256", String(64), nullable=False, unique=True),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float, nullable=True),
    Column("max_stored_bytes", BigInteger, nullable=True),  # quotas; NULL is none
    Column("max_queued_jobs", BigInteger, nullable=True),
    Column("max_bytes_in_flight", BigInteger, nullable=True),
)

jobs = Table(
    "jobs",
    _metadata,
    Column("sequence", Integer, primary_key=True, autoincrement=True),
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
    Column("plan", JSON, nullable=True),
    Column("timings", JSON, nullable=True),
    Column("verification", JSON, nullable=True),
    Column("error", JSON, nullable=True),
    Column("idempotency_key", String(255), nullable=True),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float, nullable=True),
    Column("finished_at", Float, nullable=True),
    Column("owner", String(320), nullable=True),  # as a matrix's
    UniqueConstraint("idempotency_key", name="jobs_idempotency_key"),
    Index("jobs_queue", "state", "priority", "sequence"),
    _index_owned("jobs_owner", "sequence"),
    _index_owned("jobs_owner_state", "state", "sequence"),
    Index("jobs_state", "state", "sequence"),  # pages of one state, newest first
    Index("jobs_end", "finished_at"),  # those that ended long ago
)


def upgrade() -> None:
    """Adds what is missing."""
    connection = op.get_bind()
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    for table in _metadata.sorted_tables:
        if table.name not in there:
            table.create(connection)
            continue
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        missing = [column for column in table.columns if column.name not in columns]
        for column in missing:
            if not column.nullable:
                raise SchemaRefused(
                    f"its table {table.name} is not wavetrim's: column {column.name} is missing"
                )
        for column in missing:
            op.add_column(table.name, Column(column.name, column.type))
        for index in table.indexes:
            index.create(connection, checkfirst=True)
