"""The table of docs/performance.md about busy machines, from results/busy-<host>.json."""

import statistics
from pathlib import Path
from typing import Final

from benchmarks.common.tables import RESULTS, fill_section, render_table, show
from benchmarks.host.busy.conditions import CONDITIONS, Condition
from benchmarks.host.busy.rows import (
    BusyResults,
    compare_with_peers,
    read_busy_file,
)

NOT_MEASURED: Final = "Not measured yet: there is no results/busy-<host>.json."
HEAD: Final = (
    "condition", "products", "time over the fastest other's, median", "at worst", "too slow",
)  # fmt: skip


def fill_busy(text: str, folder: Path = RESULTS) -> str:
    """The page with the table of each machine."""
    results = [read_busy_file(file) for file in sorted(folder.glob("busy-*.json"))]
    parts = [f"{one.caption}:\n\n{render_conditions(one)}" for one in results]
    return fill_section(text, "host-busy", "\n\n".join(parts) or NOT_MEASURED)


def render_conditions(results: BusyResults) -> str:
    """A line for each condition."""
    lines = []
    for condition in CONDITIONS:
        state = results.document["conditions"].get(condition)
        if state == "made":
            lines.append([condition, *_list_cells(results, condition)])
        elif state:
            lines.append([condition, state.partition(":")[0], *[""] * (len(HEAD) - 2)])
    return render_table(HEAD, lines)


def _list_cells(results: BusyResults, condition: Condition) -> list[str]:
    rows = [row for row in results.rows if row.condition == condition]
    compared = compare_with_peers(rows, has_gpu=results.has_gpu)
    ratios = [one.ratio for one in compared]
    median, worst = (show(find(ratios)) if ratios else "" for find in (statistics.median, max))
    return [str(len(ratios)), median, worst, str(sum(one.is_lost for one in compared))]
