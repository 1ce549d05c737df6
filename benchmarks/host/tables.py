"""Writes the tables of docs/performance.md, and one of docs/scale.md, from results/host-<gpu>.json.

Run `make figures`, or `python -m benchmarks.host.tables`. A results file has a part in each section
for which it has figures. The table of busy machines is from results/busy-<host>.json
(`benchmarks.host.busy`).
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from benchmarks.common.shapes import DTYPES, Shape, name_shape
from benchmarks.common.tables import (
    RESULTS,
    ROOT,
    fill_sections,
    render_columns,
    render_table,
    show,
    show_ms,
    write_page,
)
from benchmarks.host.baselines.lineup import NAMES, OURS
from benchmarks.host.busy.tables import fill_busy
from benchmarks.host.judged import judge
from benchmarks.host.judgement import find_percentile, render_judgements
from benchmarks.host.plots import list_plots
from benchmarks.host.predictions import list_errors, render_errors
from benchmarks.host.results import (
    Contest,
    HostResults,
    HostRow,
    SweepRow,
    list_contests,
    read_host_results,
)
from benchmarks.host.several import render_memory, render_several
from benchmarks.host.suite import ALL_SHAPES, Group
from wavetrim.scheduler.problem import MEMORIES

PAGE: Final = ROOT / "docs" / "performance.md"
SCALE: Final = ROOT / "docs" / "scale.md"
NOT_MEASURED: Final = "Not measured yet: no results/host-<gpu>.json holds it."
WORST: Final = 15
"""Contests that are listed as the worst ones."""

GROUPS: Final[tuple[Group, ...]] = ("suite", "random", "small")


def main() -> None:
    """Fill both pages."""
    results = read_host_results(RESULTS)
    write_page(PAGE, lambda text: fill_busy(fill_several(fill_page(text, results), results)))
    write_page(SCALE, lambda text: fill_scale(text, results))


def fill_page(text: str, results: Sequence[HostResults]) -> str:
    """The page with all tables as the results have them."""
    one_gpu = [one for one in results if not one.is_several]
    sections = {f"host-{name}": render for name, render in SECTIONS.items()}
    return fill_sections(text, sections, one_gpu, nothing="", none=NOT_MEASURED)


def fill_several(text: str, results: Sequence[HostResults]) -> str:
    """The page with the tables of several GPUs."""
    sections = {"host-several": render_several}
    return fill_sections(text, sections, results, nothing="", none=NOT_MEASURED)


def fill_scale(text: str, results: Sequence[HostResults]) -> str:
    """The page of scale with what host memory allows several GPUs."""
    return fill_sections(text, {"memory": render_memory}, results, nothing="", none=NOT_MEASURED)


def render_judged(results: HostResults) -> str:
    """The bounds, and the figures that were measured."""
    return render_judgements(judge(results))


def render_worst(results: HostResults) -> str:
    """The contests in which others are furthest ahead, or least behind."""
    contests = sorted(list_contests(results.rows), key=lambda one: one.excess, reverse=True)
    columns: dict[str, Callable[[Contest], str]] = {
        "product": lambda one: name_shape(one.ours.shape),
        "type": lambda one: one.ours.dtype,
        "memory": lambda one: one.ours.memory,
        "": lambda one: one.ours.group,
        OURS: lambda one: show_ms(one.ours.seconds),
        "fastest other": lambda one: one.fastest.baseline,
        "its time": lambda one: show_ms(one.fastest.seconds),
        "ratio": lambda one: f"{one.ours.seconds / one.fastest.seconds:.3f}",
        "slower": lambda one: "**yes**" if one.excess > 1 else "no",
    }
    return render_columns(columns, contests[:WORST])


def render_link(results: HostResults) -> str:
    """The link's rates in the run."""
    link = results.document.get("link")
    if not link:
        return ""
    cells = [f"{link[f'{way}_gbytes_per_second']:.1f}" for way in ("in", "out")]
    return render_table(("to the GPU, GB/s", "from it"), [cells])


def render_times(results: HostResults) -> str:
    """For each group, memory and element type: milliseconds of all baselines at every product."""
    tables = _show_plot(
        results, "limit", "Per cent of the GPU's limit at each product, wavetrim beside others"
    )
    for group, dtype, memory in itertools.product(GROUPS, DTYPES, MEMORIES):
        kind = (group, dtype, memory)
        rows = [row for row in results.rows if (row.group, row.dtype, row.memory) == kind]
        if rows:
            tables.append(_render_baselines(", ".join(kind), rows))
    return "\n\n".join(tables)


def _render_baselines(title: str, rows: Sequence[HostRow]) -> str:
    times = {(row.shape, row.baseline): row.seconds for row in rows}
    shares = {row.shape: row.limit_share for row in rows if row.baseline == OURS}
    with_limit = any(share is not None for share in shares.values())
    there = [name for name in NAMES if any(row.baseline == name for row in rows)]
    lines = [
        [
            name_shape(shape),
            *([show(shares.get(shape), ".0%")] if with_limit else []),
            *(show_ms(times.get((shape, name))) for name in there),
        ]
        for shape in sorted(dict.fromkeys(row.shape for row in rows), key=_find_place)
    ]
    return render_table((title, *(["of the limit"] if with_limit else []), *there), lines)


def _find_place(shape: Shape) -> int:
    """A product's place in the suite; all others come after it."""
    return ALL_SHAPES.index(shape) if shape in ALL_SHAPES else len(ALL_SHAPES)


def render_splits(results: HostResults) -> str:
    """Both devices against each device alone, at the products that the model splits."""
    columns: dict[str, Callable[[SweepRow], str]] = {
        "product": lambda row: name_shape(row.shape),
        "type": lambda row: row.dtype,
        "multiprocessors": lambda row: str(row.sms),
        "F": lambda row: str(row.f),
        OURS: lambda row: show_ms(row.measured_seconds["total"]),
        "GPU alone": lambda row: show_ms(row.gpu_alone_seconds),
        "CPU alone": lambda row: show_ms(row.cpu_alone_seconds),
        "speed over the better one": lambda row: f"{1 / row.over_better_alone:.2f}",
    }
    return render_columns(columns, (row for row in results.regret if row.is_split))


def render_regret(results: HostResults) -> str:
    """Regret and the errors of predictions, over all products that were swept."""
    whole = max((row.sms for row in results.regret), default=0)
    lines = []
    for dtype in DTYPES:
        for sms in sorted({row.sms for row in results.regret}, reverse=True):
            rows = [row for row in results.regret if (row.dtype, row.sms) == (dtype, sms)]
            if rows:
                budget = "all" if sms == whole else str(sms)
                lines.append([dtype, budget, str(len(rows)), *_list_regret_cells(rows)])
    head = (
        *("type", "multiprocessors", "products", "regret, median", "90th percentile", "95th"),
        "most over the better device alone",
        *(f"error of {part} seconds, median, 95th" for part in ("GPU", "CPU", "total")),
    )
    plot = _show_plot(results, "f", "Time over F with the model's choice")
    return "\n\n".join([*plot, render_table(head, lines)] if lines else [])


def _show_plot(results: HostResults, name: str, what: str) -> list[str]:
    """A line with the plot, if it is drawn."""
    plot = list_plots(results).get(name)
    return [f"![{what}]({plot.file.name})"] if plot else []


def _list_regret_cells(rows: Sequence[SweepRow]) -> Iterable[str]:
    """Regret, time over the better device alone, and errors of predictions."""
    regrets = [row.regret for row in rows]
    yield from (f"{find_percentile(regrets, percent):.3f}" for percent in (50, 90, 95))
    yield f"{max(row.over_better_alone for row in rows):.3f}"
    for part in ("gpu", "cpu", "total"):
        errors = list_errors(
            (row.predicted_seconds[part], row.measured_seconds[part]) for row in rows
        )
        shown = (f"{find_percentile(errors, percent):.0%}" for percent in (50, 95) if errors)
        yield ", ".join(shown)


def render_left_out(results: HostResults) -> str:
    """What was not measured, by the reason."""
    names: dict[str, list[str]] = {}
    for line in results.document.get("left_out", ()):
        name, reason = line.split(": ", 1)
        reason = "too little time was left" if reason.endswith(" s are left") else reason
        names.setdefault(reason, []).append(name)
    return "\n".join(f"- {reason}: {'; '.join(them)}" for reason, them in names.items())


SECTIONS: Final[dict[str, Callable[[HostResults], str]]] = {
    "judged": render_judged,
    "errors": lambda results: render_errors(results.rows),
    "worst": render_worst,
    "link": render_link,
    "times": render_times,
    "splits": render_splits,
    "regret": render_regret,
    "left-out": render_left_out,
}
"""Renders each section of docs/performance.md, whose marks are called host-NAME."""


if __name__ == "__main__":
    main()
