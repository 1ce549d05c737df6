"""Writes the README's seconds and docs/operations.md's faults from results/, and docs/settings.md.

Run `make readme`.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from benchmarks.cluster import pages as cluster_pages
from benchmarks.common.shapes import DTYPES
from benchmarks.common.tables import (
    README,
    RESULTS,
    ROOT,
    fill_section,
    render_table,
    show,
    show_ms,
    write_page,
)
from benchmarks.host.baselines.lineup import OURS
from benchmarks.host.results import HostResults, HostRow, read_host_results
from benchmarks.host.several import render_line
from wavetrim.service.settings import Settings

SETTINGS = ROOT / "docs" / "settings.md"
OPERATIONS = ROOT / "docs" / "operations.md"

SHOWN_SIZES = (1024, 4096, 8192)
SHOWN_BASELINES = {"wavetrim-gpu": "GPU alone", "numpy": "NumPy", "cupy": "CuPy"}


def main() -> None:
    """Fill all three pages."""
    write_page(README, fill_readme)
    write_page(SETTINGS, fill_settings)
    write_page(OPERATIONS, fill_operations)


def fill_readme(text: str) -> str:
    """The README with its measured seconds."""
    results = read_host_results(RESULTS)
    text = fill_section(text, "measured", render_measured(results))
    text = fill_section(text, "gpus", render_line(results))
    return fill_section(
        text, "cluster", " ".join(map(cluster_pages.render_line, cluster_pages.read_documents()))
    )


def fill_settings(text: str) -> str:
    """The page of settings: variable, default, meaning."""
    prefix = Settings.model_config["env_prefix"]
    cells = (
        (f"`{prefix}{name.upper()}`", show_default(field), field.description or "")
        for name, field in Settings.model_fields.items()
    )
    return fill_section(text, "settings", render_table(("Variable", "Default", "Meaning"), cells))


def fill_operations(text: str) -> str:
    """The page of operations with the faults that were tried."""
    return fill_section(text, "faults", render_faults(RESULTS / "faults.json"))


def show_default(field: FieldInfo) -> str:
    """A default as a user would write it; empty for None."""
    extra = field.json_schema_extra
    default = extra.get("default") if isinstance(extra, dict) else field.default
    if default is None:
        return ""
    if isinstance(default, ByteSize):
        return f"`{default.human_readable().replace('.0', '')}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def render_measured(results: Iterable[HostResults]) -> str:
    """Milliseconds of square products on the fastest GPU; the page of performance has all GPUs."""
    head = ("M = N = K", "type", "F", "predicted", "measured", *SHOWN_BASELINES.values())
    runs = [one for one in results if one.rows and not one.is_several]
    if not runs:
        return ""
    fastest = max(runs, key=lambda one: one.document["profile"]["gpu"]["memory_gbytes_per_second"])
    rows = {(row.m, row.dtype, row.baseline): row for row in fastest.rows
            if row.is_cube and row.memory == "pageable"}  # fmt: skip
    lines = [
        list_cells(size, dtype, rows)
        for dtype in DTYPES
        for size in SHOWN_SIZES
        if (size, dtype, OURS) in rows
    ]
    caption = (
        f"{fastest.caption}. Milliseconds from pageable memory, medians; "
        "with F = 0 *measured* and *GPU alone* are one plan, measured twice:"
    )
    return f"{caption}\n\n{render_table(head, lines)}"


def list_cells(size: int, dtype: str, rows: Mapping[tuple[int, str, str], HostRow]) -> list[str]:
    """One line: the plan, and the times of wavetrim and others. Empty where not measured."""
    ours = rows[size, dtype, OURS]
    others = [rows.get((size, dtype, name)) for name in SHOWN_BASELINES]
    seconds = [one.seconds if one else None for one in (ours, *others)]
    return [str(size), dtype, str(ours.f), *map(show_ms, [ours.predicted_seconds, *seconds])]


def render_faults(file: Path) -> str:
    """What became of jobs and matrices under each fault, below a line with the hardware."""
    document = json.loads(file.read_text(encoding="utf-8"))
    hardware, versions = document["hardware"], document["versions"]
    caption = (
        f"{hardware['cores']} cores of {hardware['cpu']}, Python {versions['python']}, "
        f"commit {document['commit']}:"
    )
    head = ("fault", "tries", "accepted", "failed with reason", "lost", "doubled", "damaged",
            "unexplained", "median s", "worst s")  # fmt: skip
    return f"{caption}\n\n{render_table(head, map(list_fault_cells, document['rows']))}"


def list_fault_cells(row: dict[str, Any]) -> list[str]:
    """One row of the table of faults."""
    names = ("tries", "accepted", "failed", "lost", "doubled", "damaged", "unexplained")
    told = row["what"] if row["tries"] else f"{row['what']}: not tried, {row.get('not_tried')}"
    seconds = (show(row[f"{name}_seconds"], ".1f") for name in ("median", "worst"))
    return [told, *(str(row[name]) for name in names), *seconds]


if __name__ == "__main__":
    main()
