"""Small files are in the database, too, until the disk has them."""

from alembic import op
from sqlalchemy import Column, ForeignKey, LargeBinary, String

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds the table."""
    matrix = Column(
        "matrix", String(40), ForeignKey("matrices.id", ondelete="CASCADE"), primary_key=True
    )
    op.create_table("unsynced_files", matrix, Column("content", LargeBinary, nullable=False))
