"""Alembic's entry: runs the migrations in the transaction that `schema` has begun."""

from alembic import context

from wavetrim.service.storage.database.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
