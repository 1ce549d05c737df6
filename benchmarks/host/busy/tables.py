"""The table of docs/performance.md about busy machines, from results/busy-<host>.json."""

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.common.tables import render_table
from benchmarks.host.busy.conditions import CONDITIONS
from benchmarks.host.busy.rows import (
    Comparison,
    ConditionRow,
    compare_with_numpy,
    compare_with_peers,
)

HEAD: Final = (
    *("condition", "products", "time over the fastest other's, median", "at worst", "too slow"),
    *("F = M: products", "time over NumPy's, median", "at worst", "too slow"),
)


def render_conditions(rows: Sequence[ConditionRow], *, has_gpu: bool) -> str:
    """A line for each condition that was measured."""
    kinds = (compare_with_peers(rows, has_gpu=has_gpu), compare_with_numpy(rows))
    lines = []
    for condition in CONDITIONS:
        chosen = [[one for one in kind if one.ours.condition == condition] for kind in kinds]
        if any(chosen):
            lines.append([condition, *(cell for kind in chosen for cell in _summarize(kind))])
    return render_table(HEAD, lines)


def _summarize(compared: Sequence[Comparison]) -> list[str]:
    ratios = [one.ratio for one in compared]
    if not ratios:
        return ["0", "", "", ""]
    lost = sum(one.is_lost for one in compared)
    return [
        str(len(ratios)), f"{statistics.median(ratios):.2f}", f"{max(ratios):.2f}", str(lost)
    ]  # fmt: skip
