"""A data folder with as many jobs as years of use leave in it, made within seconds."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Table

from wavetrim.service.storage.database.tables import VERSION_TABLE, jobs, matrices

FAILED_EVERY: Final = 1000
"""Jobs whose number is a multiple of it have failed; one was cancelled, the others succeeded."""

_PLAN: Final = json.dumps(
    {
        "memory": "pageable", "f": 4, "gpu_rows": 0, "kernel": None, "tile": None, "accuracy": None,
        "sms": None, "waves": 0, "waves_gpu_only": 0, "tail_utilization": 0.0,
        "predicted": {"gpu_seconds": 0.0, "cpu_seconds": 0.01, "total_seconds": 0.01},
        "speedup_over_gpu": None, "speedup_over_cpu": 1.0, "text": "x" * 200,
    }
)  # fmt: skip
_TIMINGS: Final = json.dumps({"kernel_seconds": 0.01, "total_seconds": 0.02})


def fill_jobs(database: Engine, count: int, *, matrix_count: int, until: float) -> None:
    """Adds finished jobs, one a second, whose operands and products are some matrices.

    Args:
        database: The database; has no jobs.
        count: How many.
        matrix_count: How many matrices they share.
        until: When the newest ended, in UTC seconds since the epoch.
    """
    rows = (_describe_job(n, matrix_count, until - count + n) for n in range(count))
    _insert(database, jobs, rows)


def fill_matrices(database: Engine, folder: Path, count: int, *, created_at: float) -> None:
    """Adds matrices that came at one time, with files that no job has to read."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{name_matrix(number)}.npy").write_bytes(bytes(144))
    _insert(database, matrices, (_describe_matrix(n, created_at) for n in range(count)))


def name_matrix(number: int) -> str:
    """The id of a matrix."""
    return f"{number:030x}"


def _describe_matrix(number: int, created_at: float) -> dict[str, Any]:
    return {
        "id": name_matrix(number), "rows": 2, "columns": 2, "dtype": "float32",
        "fortran_order": False, "offset_bytes": 128, "size_bytes": 144,
        "created_at": created_at, "place": "disk",
    }  # fmt: skip


def _describe_job(number: int, matrix_count: int, at: float) -> dict[str, Any]:
    state = "failed" if number % FAILED_EVERY == 0 else "succeeded"
    a, b, result = (name_matrix((number + n) % matrix_count) for n in range(3))
    return {
        "id": f"{number:032x}", "state": "cancelled" if number == 7 else state, "priority": 0,
        "request": f'{{"a": "{a}", "b": "{b}", "c": null, "alpha": 1.0, "beta": 0.0}}',
        "a": a, "b": b, "result": result, "progress": 1.0, "attempts": 1,
        "cancel_requested": False, "plan": _PLAN, "timings": _TIMINGS,
        "created_at": at, "started_at": at, "finished_at": at,
    }  # fmt: skip


def _insert(database: Engine, table: Table, rows: Iterator[dict[str, Any]]) -> None:
    """Past SQLAlchemy, which would take minutes to look at each value."""
    first = next(rows)
    connection = database.raw_connection()
    try:
        marks = ",".join("?" * len(first))
        insert = f"INSERT INTO {table.name} ({','.join(first)}) VALUES ({marks})"
        connection.cursor().executemany(
            insert, (tuple(row.values()) for row in chain([first], rows))
        )
        connection.commit()
    finally:
        connection.close()


def forget_version(connection: Connection) -> None:
    """Take away what versions with `schema_version` have added, so that it is added anew."""
    connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
    connection.exec_driver_sql("DROP TABLE job_labels")
    for table, column in (("jobs", "trace"), ("jobs", "shape"), ("matrices", "stack")):
        connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
