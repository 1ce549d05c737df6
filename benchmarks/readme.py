"""Writes the README's seconds and docs/operations.md's faults from results/, and docs/settings.md.

Run `make readme`.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from benchmarks.common.tables import (
    README,
    RESULTS,
    ROOT,
    fill_section,
    render_table,
    show,
    write_page,
)
from benchmarks.gains import render_gains
from wavetrim.service.settings import Settings

SETTINGS = ROOT / "docs" / "settings.md"
OPERATIONS = ROOT / "docs" / "operations.md"


def main() -> None:
    """Fill all three pages."""
    write_page(README, fill_readme)
    write_page(SETTINGS, fill_settings)
    write_page(OPERATIONS, fill_operations)


def fill_readme(text: str) -> str:
    """The README with its measured seconds."""
    return fill_section(text, "gains", render_gains(RESULTS))


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
