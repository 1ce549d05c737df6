"""Writes docs/performance.md's table of jobs from results/jobs-<gpu>.json.

Run `make figures`, or `python -m benchmarks.job_tables`. What stands between `<!-- jobs -->` and
`<!-- /jobs -->` is replaced.
"""

import json
from pathlib import Path
from typing import Any, Final

from benchmarks.host_suite import name_shape
from benchmarks.tables import RESULTS, ROOT, fill_section, render_table

PAGE: Final = ROOT / "docs" / "performance.md"
NOT_MEASURED: Final = "Not measured yet: there is no results/jobs-<gpu>.json."
HEADER: Final = ["product", "type", "job", "executor", "ratio", "files mapped", "submitted to done"]


def main() -> None:
    """Fills the section."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill_section(text, "jobs", render_jobs(RESULTS)), encoding="utf-8")


def render_jobs(folder: Path) -> str:
    """The table of each machine with a GPU that was measured.

    Args:
        folder: Of the results.
    """
    documents = [
        json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("jobs-*.json"))
    ]
    tables = [_render(document) for document in documents if document["hardware"]["gpu"]]
    return "\n\n".join(tables) or NOT_MEASURED


def _render(document: dict[str, Any]) -> str:
    hardware = document["hardware"]
    caption = (
        f"{hardware['gpu']}, driver {hardware['driver']}, beside {hardware['cores']} cores of "
        f"{hardware['cpu']}; commit {document['commit']}:"
    )
    rows = [
        [
            name_shape((row["m"], row["n"], row["k"])),
            row["dtype"],
            *(_show(row[name]) for name in ("job_total_seconds", "executor_total_seconds")),
            f"{row['ratio']:.3f}",
            *(_show(row[name]) for name in ("map_seconds", "wall_seconds")),
        ]
        for row in document["rows"]
    ]
    return f"{caption}\n\n{render_table(HEADER, rows)}"


def _show(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


if __name__ == "__main__":
    main()
