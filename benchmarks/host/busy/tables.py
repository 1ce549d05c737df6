"""The table of docs/performance.md about busy machines, from results/busy-<host>.json."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.common.tables import RESULTS, fill_sections, render_table, show
from benchmarks.host.busy.conditions import CONDITIONS, Condition
from benchmarks.host.busy.rows import (
    BusyResults,
    Comparison,
    compare_with_numpy,
    compare_with_peers,
    read_busy_file,
)

NOT_MEASURED: Final = "Not measured yet: there is no results/busy-<host>.json."
HEAD: Final = (
    *("condition", "products", "time over the fastest other's, median", "at worst", "too slow"),
    *("with F = M: products", "time over NumPy's, median", "at worst", "too slow"),
)


def fill_busy(text: str, folder: Path = RESULTS) -> str:
    """The page with the table of each machine."""
    results = [read_busy_file(file) for file in sorted(folder.glob("busy-*.json"))]
    return fill_sections(text, {"host-busy": render_conditions}, results, none=NOT_MEASURED)


def render_conditions(results: BusyResults) -> str:
    """A line for each condition."""
    lines = []
    for condition in CONDITIONS:
        state = results.document["conditions"].get(condition)
        if state == "made":
            lines.append([condition, *_list_cells(results, condition)])
        elif state:
            lines.append([condition, state, *[""] * (len(HEAD) - 2)])
    return render_table(HEAD, lines)


def _list_cells(results: BusyResults, condition: Condition) -> list[str]:
    rows = [row for row in results.rows if row.condition == condition]
    peers = compare_with_peers(rows, has_gpu=results.has_gpu)
    return [*_summarize(peers), *_summarize(compare_with_numpy(rows))]


def _summarize(compared: Sequence[Comparison]) -> list[str]:
    ratios = [one.ratio for one in compared]
    median = show(statistics.median(ratios)) if ratios else ""
    lost = sum(one.is_lost for one in compared)
    return [str(len(ratios)), median, show(max(ratios, default=None)), str(lost)]
