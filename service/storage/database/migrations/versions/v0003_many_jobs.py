"""More than 2³¹ jobs may be numbered on PostgreSQL, as SQLite does."""

from alembic import op
from sqlalchemy import BigInteger

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Widens the column and what numbers it; this rewrites the table."""
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("jobs", "sequence", type_=BigInteger)
        op.execute("ALTER SEQUENCE jobs_sequence_seq AS BIGINT")
