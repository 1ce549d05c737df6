"""More than 2³¹ jobs may be numbered on PostgreSQL, as SQLite does."""

from alembic import op
from sqlalchemy import BigInteger, inspect

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Widens the column and what numbers it; this rewrites the table."""
    connection = op.get_bind()
    columns = {column["name"] for column in inspect(connection).get_columns("jobs")}
    # Without the column the table is another program's: it is refused, and all of this undone.
    if connection.dialect.name == "postgresql" and "sequence" in columns:
        op.alter_column("jobs", "sequence", type_=BigInteger)
        op.execute("ALTER SEQUENCE jobs_sequence_seq AS BIGINT")
