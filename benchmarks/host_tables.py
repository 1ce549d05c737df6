"""Writes docs/performance.md's tables from results/host-<gpu>.json.

Run `make figures`, or `python -m benchmarks.host_tables`. What stands between `<!-- NAME -->` and
`<!-- /NAME -->` is replaced. Captions name the latest commit; what older contests and sweeps have a
part in is marked, and the caption says of which commit they are.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.host_commits import CommitMarks
from benchmarks.host_rows import HostResults, RegretRow, read_host_results
from benchmarks.host_suite import ALL_SHAPES, DTYPES, HELD_SMS, SQUARES_HELD, name_shape
from benchmarks.host_summary import (
    ALONE,
    OURS,
    PEERS,
    find_commits,
    find_hybrid_gain,
    find_limit_shares,
    find_percentile,
    list_errors,
    list_promises,
    pick_sweeps,
    pick_times,
)
from benchmarks.measured import ResultsError
from benchmarks.tables import RESULTS, ROOT, fill_section, render_table
from wavetrim.scheduler.problem import MEMORIES

PAGE: Final = ROOT / "docs" / "performance.md"
NOT_MEASURED: Final = "Not measured yet: there is no results/host-<gpu>.json."
NOTHING: Final = "These results do not hold it."
MIXED: Final = "with contests or sweeps of commit {}, each complete in itself"
"""Of figures over several products."""


def main() -> int:
    """Fills the page."""
    try:
        results = read_host_results(RESULTS)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 1
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    return 0


def fill_page(text: str, results: Sequence[HostResults]) -> str:
    """The page with all tables as the results have them."""
    for name, render in SECTIONS.items():
        words = MIXED if name == "promises" else "of commit {}"
        bodies = [caption_body(one, render(one) or NOTHING, words) for one in results]
        text = fill_section(text, f"host-{name}", "\n\n".join(bodies) or NOT_MEASURED)
    return text


def caption_body(results: HostResults, body: str, words: str) -> str:
    """A section with its caption, which also tells what the marks in it mean."""
    return f"{results.caption}{CommitMarks.find(results).explain(body, words)}:\n\n{body}"


def render_promises(results: HostResults) -> str:
    """What is asked, and what was found."""
    marks = CommitMarks.find(results)
    rows = []
    for promise in list_promises(results):
        sign = "≥" if promise.at_least else "≤"
        known = promise.found is not None
        kept = {True: "yes", False: "**no**", None: "not measured"}[promise.kept]
        found = _show(promise.found, ".3f") + marks.show(promise.commits if known else ())
        rows.append([promise.what, promise.dtype, f"{sign} {promise.asked:g}", found, kept])
    return render_table(("figure", "type", "asked", "found", "kept"), rows)


def render_link(results: HostResults) -> str:
    """The link's rates in the run."""
    link = results.document.get("link")
    if not link:
        return ""
    cells = [f"{link[f'{way}_gbytes_per_second']:.1f}" for way in ("in", "out")]
    return render_table(("to the GPU, GB/s", "from it"), [cells])


def render_times(results: HostResults) -> str:
    """For each element type and memory: milliseconds of all contenders at every product."""
    marks = CommitMarks.find(results)
    tables = []
    for dtype in DTYPES:
        for memory in MEMORIES:
            names = (OURS, *ALONE[:1], *PEERS)
            times = {name: pick_times(results.rows, name, dtype, memory) for name in names}
            shares = find_limit_shares(results.rows, dtype, memory)
            there = [name for name in names if times[name]]
            commits = {x: find_commits(results.rows, (x,), dtype, memory) for x in ALL_SHAPES}
            lines = [
                [
                    f"{name_shape(shape)}{marks.show(commits[shape])}",
                    _show(shares.get(shape), ".0%"),
                    *(_show_ms(times[name].get(shape)) for name in there),
                ]
                for shape in ALL_SHAPES
                if any(shape in times[name] for name in there)
            ]
            if lines:
                head = (f"{dtype}, {memory}", "of the limit", *there)
                tables.append(render_table(head, lines))
    return "\n\n".join(tables)


def render_held(results: HostResults) -> str:
    """Both devices beside each of them alone, the GPU held to some multiprocessors."""
    marks = CommitMarks.find(results)
    lines = []
    for dtype in DTYPES:
        for sms in HELD_SMS:
            for shape in SQUARES_HELD:
                gain = find_hybrid_gain(results.rows, shape, dtype, sms)
                if gain is None:
                    continue
                cells = (
                    _show_ms(pick_times(results.rows, name, dtype, "pageable", sms).get(shape))
                    for name in (OURS, *ALONE)
                )
                commits = find_commits(results.rows, (shape,), dtype, "pageable", sms)
                name = name_shape(shape) + marks.show(commits)
                lines.append([name, dtype, str(sms), *cells, f"{gain:.2f}"])
    head = ("product", "type", "multiprocessors", OURS, *ALONE, "speed over the better one")
    return render_table(head, lines) if lines else ""


def render_regret(results: HostResults) -> str:
    """Regret and the errors of predictions, over all products that were swept."""
    if not results.regret:
        return ""
    marks = CommitMarks.find(results)
    whole = max(row.sms for row in results.regret)
    lines = []
    for dtype in DTYPES:
        for sms in sorted({row.sms for row in results.regret}, reverse=True):
            sweeps = [
                row for row in pick_sweeps(results.regret, dtype, (sms,), ALL_SHAPES)
                if row.sms == sms
            ]  # fmt: skip
            if not sweeps:
                continue
            budget = "all" if sms == whole else str(sms)
            count = marks.count(row.commit for row in sweeps)
            lines.append([dtype, budget, count, *_list_regret_cells(sweeps)])
    head = (
        *("type", "multiprocessors", "products", "regret, median", "95th percentile"),
        "most over the better device alone",
        *(f"error of {part} seconds, median, 95th" for part in ("GPU", "CPU", "total")),
    )
    return render_table(head, lines)


def render_left_out(results: HostResults) -> str:
    """What was not measured, and why."""
    return "\n".join(f"- {line}" for line in results.document.get("left_out", ()))


def _list_regret_cells(sweeps: Sequence[RegretRow]) -> list[str]:
    """Regret, time over the better device alone, and errors of predictions."""
    regrets = [row.regret for row in sweeps]
    worst = max(row.over_better_alone for row in sweeps)
    shown = (find_percentile(regrets, 50), find_percentile(regrets, 95), worst)
    cells = [_show(value, ".3f") for value in shown]
    for part in ("gpu", "cpu", "total"):
        errors = list_errors(sweeps, part)
        middle, high = (_show(find_percentile(errors, percent), ".0%") for percent in (50, 95))
        cells.append(f"{middle}, {high}" if errors else "")
    return cells


SECTIONS: Final[dict[str, Callable[[HostResults], str]]] = {
    "promises": render_promises,
    "link": render_link,
    "times": render_times,
    "held": render_held,
    "regret": render_regret,
    "left-out": render_left_out,
}
"""What fills each section of docs/performance.md, whose marks are called host-NAME."""


def _show(value: float | None, form: str) -> str:
    """A figure; empty for None."""
    return "" if value is None else format(value, form)


def _show_ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3g}"


if __name__ == "__main__":
    sys.exit(main())
