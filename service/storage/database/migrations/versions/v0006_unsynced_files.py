"""Small files are in the database, too, until the disk has them."""

from alembic import op
from sqlalchemy import Column, ForeignKey, LargeBinary, String, inspect

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds the table."""
    columns = {column["name"] for column in inspect(op.get_bind()).get_columns("matrices")}
    # Without the column the table is another program's: it is refused, and all of this undone.
    if "id" in columns:
        matrix = Column(
            "matrix", String(40), ForeignKey("matrices.id", ondelete="CASCADE"), primary_key=True
        )
        op.create_table("unsynced_files", matrix, Column("content", LargeBinary, nullable=False))
