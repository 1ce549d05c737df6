"""The table of faults in docs/operations.md, from results/faults.json."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common.tables import render_table, show

WRONG: Final = ("lost", "doubled", "damaged", "unexplained")
"""Counts of what must not happen."""

FAULT_GROUPS: Final = {
    "engine or service is killed, stopped or hangs": ("kill-", "stop-", "engine-"),
    "the database is locked, restored or restarted": ("database-",),
    "an operand's file is changed or replaced": ("file-",),
    "the same, and the engine reads the file itself": ("mapped-file-",),
    "disk, arena, /dev/shm, memory or descriptors are used up": (
        "disk-", "arena-", "shared-memory-", "few-", "small-group",
    ),
    "callers stall, trickle or vanish": ("bad-callers",),
}  # fmt: skip
"""What the page says of faults whose names begin alike."""


def render_faults(file: Path) -> str:
    """The table of faults, below a line with the hardware."""
    document = json.loads(file.read_text(encoding="utf-8"))
    hardware, versions = document["hardware"], document["versions"]
    caption = (
        f"{hardware['cores']} cores of {hardware['cpu']}, Python {versions['python']}, "
        f"commit {document['commit']}:"
    )
    head = ("fault", "tries", "accepted", "failed with reason", "wrong", "worst s")
    groups: dict[str, list[dict[str, Any]]] = {told: [] for told in FAULT_GROUPS}
    for row in document["rows"]:
        groups[find_group(row["fault"])].append(row)
    cells = (list_fault_cells(told, rows) for told, rows in groups.items() if rows)
    return f"{caption}\n\n{render_table(head, cells)}"


def find_group(fault: str) -> str:
    """The words of the group that has a fault."""
    (told,) = (told for told, begins in FAULT_GROUPS.items() if fault.startswith(begins))
    return told


def list_fault_cells(told: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """One row of the table: sums of the faults of a group, and their longest recovery."""
    missing = [row["what"] for row in rows if not row["tries"]]
    if missing:
        told = f"{told}; not tried: {', '.join(missing)}"
    counts = (sum(row[name] for row in rows) for name in ("tries", "accepted", "failed"))
    wrong = sum(row[name] for row in rows for name in WRONG)
    worst = max((row["worst_seconds"] for row in rows if row["tries"]), default=None)
    return [told, *map(str, counts), str(wrong), show(worst, ".1f")]
