"""The tables of products in process: contests, and what sweeps of F found."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from benchmarks.common.tables import render_table, show
from benchmarks.host.conditions import CONDITIONS, Condition
from benchmarks.host.results import (
    MEMORY_NAMES,
    Contest,
    HostResults,
    list_contests,
    list_versions,
)
from wavetrim.scheduler.problem import MEMORIES, Memory

PEERS: Final = {
    "CuPy": "cupy",
    "CuPy, streams": "cupy-streams",
    "CuPy on all GPUs": "cupy-gpus",
    "PyTorch": "torch",
    "NumPy": "numpy",
    "cublasXt": "cublasxt",
}
"""Others by their baselines' names."""

HEAD: Final = (
    *("machine", "condition", "memory", "products", "share of the limit"),
    *(f"speed over {name}" for name in PEERS),
    *("over the fastest", "at worst", "another is faster"),
)

_Key = tuple[str, Condition, Memory]
"""A machine, a condition and a kind of memory."""


def render_times(results: Sequence[HostResults]) -> str:
    """A line for each machine, condition and kind of memory, from the newest results that have it.

    Args:
        results: Results, the oldest first.
    """
    lines = {key: cells for one in results for key, cells in _list_lines(one)}
    if not lines:
        return ""
    rows = [HEAD, *(lines[key] for key in sorted(lines, key=_order))]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    names, *others = zip(*columns, strict=True)
    versions = dict.fromkeys(list_versions(one.document["versions"]) for one in results)
    return f"{'; '.join(versions)}:\n\n{render_table(names, others)}"


def _list_lines(results: HostResults) -> Iterator[tuple[_Key, Sequence[str]]]:
    contests: dict[tuple[Condition, Memory], list[Contest]] = {}
    for one in list_contests(results.rows):
        contests.setdefault((one.ours.condition, one.ours.memory), []).append(one)
    for (condition, memory), found in contests.items():
        cells = (results.machine, condition, MEMORY_NAMES[memory], *_list_cells(found))
        yield (results.hardware, condition, memory), cells


def _order(key: _Key) -> tuple[object, ...]:
    machine, condition, memory = key
    return "," in machine, machine, CONDITIONS.index(condition), MEMORIES.index(memory)


def _list_cells(contests: Sequence[Contest]) -> Iterable[str]:
    limits = [one.ours.limit_share for one in contests if one.ours.limit_share is not None]
    yield str(len(contests))
    yield show(statistics.median(limits) if limits else None, ".0%")
    for name in PEERS.values():
        speeds = [one.rows[name].seconds / one.ours.seconds for one in contests if name in one.rows]
        yield show(statistics.geometric_mean(speeds) if speeds else None)
    yield show(statistics.geometric_mean(1 / one.ratio for one in contests))
    yield show(min(1 / one.ratio for one in contests))
    yield str(sum(one.ratio > 1 for one in contests))


def render_regret(results: Sequence[HostResults]) -> str:
    """A line for each machine and condition: the time at the model's F over that at the best F."""
    lines = []
    for one in results:
        kinds: dict[tuple[Memory, Condition], list[float]] = {}
        for row in one.regret:
            kinds.setdefault((row.memory, row.condition), []).append(row.regret)
        for (memory, condition), regrets in kinds.items():
            high = sorted(regrets)[math.ceil(0.95 * len(regrets)) - 1]
            lines.append(
                f"- {one.machine}, {MEMORY_NAMES[memory]}, {condition}: "
                f"{statistics.median_low(regrets):.3f} in the median of {len(regrets)} sweeps, "
                f"{high:.3f} at the 95th percentile, {max(regrets):.2f} at worst."
            )
    return "\n".join(lines)
