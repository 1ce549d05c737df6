"""A job keeps the trace of the request that asked for it."""

from alembic import op
from sqlalchemy import Column, String

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the column."""
    op.add_column("jobs", Column("trace", String(55)))
