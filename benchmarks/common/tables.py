"""Writes the README's seconds and docs/operations.md's faults from results/, and docs/settings.md.

Run `make readme`. What stands between `<!-- NAME -->` and `<!-- /NAME -->` is replaced.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from benchmarks.host.baselines.lineup import OURS
from benchmarks.host.results import HostResults, read_host_results
from benchmarks.host.rows import HostRow
from benchmarks.host.suite import DTYPES
from wavetrim.service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
SETTINGS = ROOT / "docs" / "settings.md"
OPERATIONS = ROOT / "docs" / "operations.md"

SHOWN_SIZES = (1024, 4096, 8192)
SHOWN_BASELINES = {"wavetrim-gpu": "GPU alone", "numpy": "NumPy", "cupy": "CuPy"}


def main() -> None:
    """Fills all tables."""
    tables = {
        README: ("measured", render_measured(read_host_results(RESULTS))),
        SETTINGS: ("settings", render_settings()),
        OPERATIONS: ("faults", render_faults(RESULTS / "faults.json")),
    }
    for page, (name, body) in tables.items():
        text = page.read_text(encoding="utf-8")
        page.write_text(fill_section(text, name, body), encoding="utf-8")


def fill_section(text: str, name: str, body: str) -> str:
    """Replaces one marked section, whose marks stand on lines of their own or both in one line.

    Raises:
        ValueError: The text does not have this section exactly once.
    """
    pattern = re.compile(rf"(<!-- {name} -->)(\n?).*?(<!-- /{name} -->)", re.DOTALL)
    filled, count = pattern.subn(
        lambda match: f"{match[1]}{match[2]}{body}{match[2]}{match[3]}", text
    )
    if count != 1:
        raise ValueError(f"section {name}: found {count} times, expected once")
    return filled


def render_settings() -> str:
    """The settings table: variable, default, meaning."""
    rows = (
        (f"`{Settings.model_config['env_prefix']}{name.upper()}`", show_default(field), field)
        for name, field in Settings.model_fields.items()
    )
    cells = ((variable, default, field.description or "") for variable, default, field in rows)
    return render_table(("Variable", "Default", "Meaning"), cells)


def show_default(field: FieldInfo) -> str:
    """A default as a person would type it; empty where there is none."""
    extra = field.json_schema_extra
    default = extra.get("default") if isinstance(extra, dict) else field.default
    if default is None:
        return ""
    if isinstance(default, ByteSize):
        return f"`{default.human_readable().replace('.0', '')}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def render_measured(results: Iterable[HostResults]) -> str:
    """Milliseconds of square products, one table for each run with contests."""
    tables = []
    for one in results:
        rows = {(row.m, row.dtype, row.baseline): row for row in one.rows
                if row.m == row.n == row.k and row.memory == "pageable"}  # fmt: skip
        lines = [
            list_cells(size, dtype, rows)
            for dtype in DTYPES
            for size in SHOWN_SIZES
            if (size, dtype, OURS) in rows
        ]
        if lines:
            head = ("M = N = K", "type", "F", "predicted", "measured", *SHOWN_BASELINES.values())
            caption = f"{one.caption}. Milliseconds, medians:"
            tables.append(f"{caption}\n\n{render_table(head, lines)}")
    return "\n\n".join(tables)


def list_cells(size: int, dtype: str, rows: Mapping[tuple[int, str, str], HostRow]) -> list[str]:
    """One line: the plan, and this product's and others' times. Empty where nobody measured."""
    ours = rows[size, dtype, OURS]
    others = [rows.get((size, dtype, name)) for name in SHOWN_BASELINES]
    seconds = [ours.predicted_seconds, ours.seconds]
    seconds += [None if one is None else one.seconds for one in others]
    times = ("" if x is None else f"{x * 1e3:.3g}" for x in seconds)
    return [str(size), dtype, str(ours.f), *times]


def render_faults(file: Path) -> str:
    """What became of jobs and matrices under each fault; the hardware in the line above."""
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
    seconds = (row[f"{name}_seconds"] for name in ("median", "worst"))
    told = row["what"] if row["tries"] else f"{row['what']}: not tried, {row.get('not_tried')}"
    times = ("" if one is None else f"{one:.1f}" for one in seconds)
    return [told, *(str(row[name]) for name in names), *times]


def render_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()
