"""Writes the figures of products in process into docs/performance.md, from results/host-*.json.

Run `make figures`, or `python -m benchmarks.host.tables`. The table of busy machines is from
results/busy-<host>.json (`benchmarks.host.busy`).
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from benchmarks.common.tables import RESULTS, ROOT, fill_section, render_table, show, write_page
from benchmarks.host.baselines.lineup import OTHERS, OURS
from benchmarks.host.busy.tables import fill_busy
from benchmarks.host.judgement import find_percentile
from benchmarks.host.predictions import list_errors
from benchmarks.host.results import (
    MEMORY_NAMES,
    Contest,
    HostResults,
    HostRow,
    group_rows,
    list_versions,
    read_host_results,
)
from wavetrim.scheduler.problem import MEMORIES

PAGE: Final = ROOT / "docs" / "performance.md"
NOT_MEASURED: Final = "Not measured yet: no results/host-<gpu>.json holds it."

PEERS: Final[Mapping[str, Sequence[str]]] = {
    "CuPy": ("cupy", "cupy-gpus"),
    "CuPy, streams": ("cupy-streams",),
    "PyTorch": ("torch",),
    "NumPy": ("numpy",),
    "cublasXt": ("cublasxt",),
}
"""Others by their baselines' names, on one GPU and on several."""

HEAD: Final = (
    *("machine", "memory", "products", "share of the limit"),
    *(f"speed over {name}" for name in PEERS),
    *("over the fastest", "slower than the fastest", "prediction off by"),
)


def main() -> None:
    """Fill the page."""
    results = read_host_results(RESULTS)
    write_page(PAGE, lambda text: fill_busy(fill_page(text, results)))


def fill_page(text: str, results: Sequence[HostResults]) -> str:
    """The page with the table of contests, and with what sweeps of F found."""
    contests, sweeps = ([one for one in results if part(one)] for part in (_has_rows, _has_sweeps))
    text = fill_section(text, "host-times", render_times(contests) or NOT_MEASURED)
    return fill_section(text, "host-regret", render_regret(sweeps) or NOT_MEASURED)


def _has_rows(results: HostResults) -> bool:
    return bool(results.rows)


def _has_sweeps(results: HostResults) -> bool:
    return bool(results.regret)


def render_times(results: Sequence[HostResults]) -> str:
    """A line for each machine and kind of memory: medians, and geometric means of speeds."""
    lines = []
    for one in results:
        products = group_rows(one.rows)
        for memory in MEMORIES:
            of = [by_name for by_name in products if by_name[OURS].memory == memory]
            if of:
                lines.append([name_machine(one), MEMORY_NAMES[memory], *_list_cells(of)])
    versions = dict.fromkeys(list_versions(one.document["versions"]) for one in results)
    return f"{'; '.join(versions)}:\n\n{render_table(HEAD, lines)}" if lines else ""


def name_machine(results: HostResults) -> str:
    """GPUs, cores and commit: "2 H100, 32 cores (ce5bef5)"."""
    document = results.document
    gpus, cores = int(document.get("gpus", 1)), document["hardware"]["cores"]
    return f"{gpus} {results.gpu.upper()}, {cores} cores ({document['commit']})"


def _list_cells(products: Sequence[Mapping[str, HostRow]]) -> Iterable[str]:
    ours = [by_name[OURS] for by_name in products]
    limits = [row.limit_share for row in ours if row.limit_share is not None]
    yield str(len(ours))
    yield show(statistics.median(limits) if limits else None, ".0%")
    for names in PEERS.values():
        yield _show_mean(
            by_name[name].seconds / by_name[OURS].seconds
            for by_name in products
            for name in names
            if name in by_name
        )
    contests = [Contest(by_name) for by_name in products if not by_name.keys().isdisjoint(OTHERS)]
    yield _show_mean(one.fastest.seconds / one.ours.seconds for one in contests)
    yield str(sum(one.excess > 1 for one in contests)) if contests else ""
    errors = list_errors((row.predicted_seconds or 0.0, row.seconds) for row in ours)
    yield show(find_percentile(errors, 50), ".0%")


def _show_mean(speeds: Iterable[float]) -> str:
    known = list(speeds)
    return show(statistics.geometric_mean(known) if known else None)


def render_regret(results: Sequence[HostResults]) -> str:
    """A line for each machine: the time at the model's F over that at the best F."""
    lines = []
    for one in results:
        regrets = [row.regret for row in one.regret]
        median, high = (show(find_percentile(regrets, x), ".3f") for x in (50, 95))
        lines.append(
            f"- {name_machine(one)}: {median} in the median of {len(regrets)} sweeps, {high} at the"
            f" 95th percentile, {max(regrets):.2f} at worst."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
