"""Jobs have labels, and say the shape of their result, as others may wait for it."""

from alembic import op
from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    MetaData,
    String,
    Table,
    select,
)

revision = "0004"
down_revision = "0003"

_metadata = MetaData()

_matrices = Table(
    "matrices",
    _metadata,
    Column("id", String(40), primary_key=True),
    Column("rows", BigInteger),
    Column("columns", BigInteger),
    Column("dtype", String(16)),
)

_jobs = Table(
    "jobs",
    _metadata,
    Column("id", String(40), primary_key=True),
    Column("state", String(16)),
    Column("a", String(40)),
    Column("b", String(40)),
    Column("shape", JSON),
)

_labels = Table(
    "job_labels",
    _metadata,
    Column("label", String(64), primary_key=True),
    Column("job", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Index("job_labels_job", "job"),
)


def upgrade() -> None:
    """Adds the table and the column, which is filled for jobs that have not ended."""
    connection = op.get_bind()
    op.add_column("jobs", Column("shape", JSON))
    _labels.create(connection)
    _fill_shapes(connection)


def _fill_shapes(connection: Connection) -> None:
    b = _matrices.alias()
    unfinished = (
        select(_jobs.c.id, _matrices.c.rows, b.c.columns, _matrices.c.dtype)
        .where(_jobs.c.state.in_(("queued", "running")))
        .join(_matrices, _matrices.c.id == _jobs.c.a)
        .join(b, b.c.id == _jobs.c.b)
    )
    for job, *shape in connection.execute(unfinished).all():
        connection.execute(_jobs.update().where(_jobs.c.id == job).values(shape=[*shape, None]))
