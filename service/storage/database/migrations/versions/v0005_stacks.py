"""A stored matrix may be a stack of matrices."""

from alembic import op
from sqlalchemy import BigInteger, Column

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the column."""
    op.add_column("matrices", Column("stack", BigInteger))
