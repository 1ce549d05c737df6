"""Whether the tables of a database are those of this version: columns, keys and indexes.

Alembic can compare them, too, and does in tests; but importing it takes longer than all of this.
Additions by others are accepted, unless they forbid what this version writes.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Constraint,
    ForeignKeyConstraint,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
)
from sqlalchemy.schema import ColumnCollectionConstraint, CreateIndex
from sqlalchemy.types import TypeEngine

from wavetrim.service.storage.database.tables import metadata


def find_difference(connection: Connection) -> str | None:
    """The first difference of a database's tables from this version's; None without any."""
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name in metadata.tables)
    for wanted in metadata.sorted_tables:
        if wanted.name not in found.tables:
            return f"it has no table {wanted.name}, which this wavetrim has made"
        for difference in _list_differences(found.tables[wanted.name], wanted, connection):
            return f"its table {wanted.name} is not wavetrim's: {difference}"
    return None


def _list_differences(found: Table, wanted: Table, connection: Connection) -> Iterator[str]:
    for column in wanted.columns:
        yield from _list_column_differences(found.columns.get(column.name), column)
    for other in found.columns:
        must_be_given = not other.nullable and other.server_default is None
        if other.name not in wanted.columns and must_be_given:
            yield f"column {other.name}, which this wavetrim does not know, may not be left out"
    constraints = set(map(_describe_constraint, found.constraints))
    for constraint in sorted(map(_describe_constraint, wanted.constraints)):
        if constraint not in constraints:
            yield f"it has no {constraint}"
    indexes = set(map(_describe_index, found.indexes))
    for index in sorted(wanted.indexes, key=lambda one: str(one.name)):
        if _describe_index(index) not in indexes:
            statement = " ".join(str(CreateIndex(index).compile(connection)).split())
            yield f"it has no index {index.name} as {statement} makes it"


def _list_column_differences(found: Column[Any] | None, wanted: Column[Any]) -> Iterator[str]:
    if found is None or not _holds(found.type, wanted.type):
        is_now = "missing" if found is None else found.type
        yield f"column {wanted.name} is {is_now}; it must be {wanted.type}"
    elif found.nullable != wanted.nullable:
        yield f"column {wanted.name} {'must' if wanted.nullable else 'may not'} take NULL"


def _holds(found: TypeEngine[Any], wanted: TypeEngine[Any]) -> bool:
    try:
        return issubclass(found.python_type, wanted.python_type)
    except NotImplementedError:  # of a type that is no value of Python's
        return False


def _describe_constraint(constraint: Constraint) -> str:
    """A constraint in words, without its name."""
    if not isinstance(constraint, ColumnCollectionConstraint):
        return "check"
    columns = ", ".join(column.name for column in constraint.columns)
    if isinstance(constraint, ForeignKeyConstraint):
        targets = ", ".join(element.target_fullname for element in constraint.elements)
        return f"foreign key {columns} to {targets}, on delete {constraint.ondelete}"
    kind = "primary key" if isinstance(constraint, PrimaryKeyConstraint) else "unique constraint"
    return f"{kind} of {columns}"


def _describe_index(index: Index) -> tuple[str | None, tuple[str, ...], bool]:
    """An index: its name, its columns, and whether it is partial."""
    is_partial = any(str(name).endswith("_where") for name in index.dialect_kwargs)
    return index.name, tuple(index.columns.keys()), is_partial
