"""Tables as they were before they had a version."""

from sqlalchemy import Connection

from wavetrim.service.storage.database.tables import VERSION_TABLE


def forget_version(connection: Connection) -> None:
    """Take away what versions with `schema_version` have added, so that it is added anew."""
    connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
    connection.exec_driver_sql("DROP TABLE job_labels")
    for table, column in (("jobs", "trace"), ("jobs", "shape"), ("matrices", "stack")):
        connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
