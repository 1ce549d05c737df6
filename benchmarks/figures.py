"""Writes all measured figures into README.md and docs/, and draws the plots.

Run `make figures`, or `python -m benchmarks.figures`; it needs matplotlib.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.common.plots import DOCS, Plot
from benchmarks.common.results import ResultsError
from benchmarks.common.tables import README, RESULTS, SHOWN, fill_section
from benchmarks.faults import render_faults
from benchmarks.host.gains import render_gains
from benchmarks.host.pages import plot_limit_shown, render_regret, render_times
from benchmarks.host.results import read_contests, read_host_results
from benchmarks.http.rows import read_http_results, render_products
from benchmarks.jobs.rows import read_jobs_results, render_machine
from benchmarks.kernels import ladder
from benchmarks.kernels.rows import read_kernel_results
from benchmarks.settings import render_settings
from benchmarks.verify import render_verify

NOT_MEASURED: Final = "Not measured yet: no file of results holds it."

SECTIONS: Final[dict[str, tuple[Path, Callable[[], str]]]] = {
    "gains": (README, lambda: render_gains(RESULTS)),
    "host-times": (DOCS / "performance.md", lambda: render_times(read_contests(RESULTS))),
    "host-regret": (DOCS / "performance.md", lambda: render_regret(read_host_results(RESULTS))),
    "http-products": (
        DOCS / "performance.md", lambda: render_products(read_http_results(RESULTS)),
    ),
    "jobs": (
        DOCS / "performance.md",
        lambda: "\n\n".join(map(render_machine, read_jobs_results(RESULTS))),
    ),
    "speed": (
        DOCS / "kernels.md", lambda: ladder.render_speed(read_kernel_results(RESULTS, SHOWN)[0]),
    ),
    "verify": (DOCS / "api.md", lambda: render_verify(RESULTS)),
    "faults": (DOCS / "operations.md", lambda: render_faults(RESULTS / "faults.json")),
    "settings": (DOCS / "settings.md", render_settings),
}  # fmt: skip
"""The marked sections, each with its page and what it shows."""

PLOTS: Final[tuple[Callable[[], Plot], ...]] = (ladder.plot_shown, plot_limit_shown)


def main() -> None:
    """Fill the sections and draw the plots; wrong results end the program with a message."""
    try:
        for name, (page, _) in SECTIONS.items():
            page.write_text(fill(page.read_text(encoding="utf-8"), name), encoding="utf-8")
        for plot_shown in PLOTS:
            plot = plot_shown()
            plot.file.write_bytes(plot.render())
    except ResultsError as error:
        sys.exit(str(error))


def fill(text: str, name: str) -> str:
    """A page with one section as it should be."""
    _, render = SECTIONS[name]
    return fill_section(text, name, render() or NOT_MEASURED)


if __name__ == "__main__":
    main()
