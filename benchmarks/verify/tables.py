"""Writes the tables of docs/verify.md from results/verify.json."""

import json
from collections.abc import Callable
from typing import Any

from benchmarks.common.tables import (
    RESULTS,
    ROOT,
    fill_section,
    render_columns,
    render_table,
    write_page,
)

PAGE = ROOT / "docs" / "verify.md"


def main() -> None:
    """Fill the page."""
    write_page(PAGE, fill_page)


def fill_page(text: str) -> str:
    """The page with the figures that were measured."""
    document = json.loads((RESULTS / "verify.json").read_text(encoding="utf-8"))
    caption = describe_machine(document)
    text = fill_section(text, "verify-missed", f"{caption}\n\n{render_missed(document)}")
    return fill_section(text, "verify-cost", f"{caption}\n\n{render_cost(document)}")


def describe_machine(document: dict[str, Any]) -> str:
    """Hardware, NumPy's version and commit."""
    hardware, versions = document["hardware"], document["versions"]
    gpu = f"{hardware['gpu']} beside " if hardware["gpu"] else ""
    return (
        f"{gpu}{hardware['cores']} cores of {hardware['cpu']}; NumPy {versions['numpy']}; commit "
        f"{document['commit']}:"
    )


def render_missed(document: dict[str, Any]) -> str:
    """A row for each kind of damage, a column for each type: "missed of tries"."""
    missed = {(row["change"], row["type"]): row for row in document["rows"]}
    changes, types = (list(dict.fromkeys(names)) for names in zip(*missed, strict=True))

    def show_share(name: str, row: dict[str, Any]) -> str:
        return f"{row[name]} of {row['tries']}"

    rows = [
        [change, *(show_share("missed", missed[change, one]) for one in types)]
        for change in changes
    ]
    right = {row["type"]: row for row in document["right"]}
    alarms = (show_share("false_alarms", right[one]) for one in types)
    return render_table(("Change", *types), [*rows, ["right products that do not pass", *alarms]])


def render_cost(document: dict[str, Any]) -> str:
    """Milliseconds of products without and with their check."""
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "Product": lambda row: f"{row['size']}³ {row['type']}",
        "computed by": lambda row: {0: "CPU", row["size"]: "GPU"}.get(row["gpu_rows"], "both"),
        "alone, ms": lambda row: f"{row['product_seconds'] * 1e3:.1f}",
        "with its check, ms": lambda row: f"{row['checked_seconds'] * 1e3:.1f}",
        "more": lambda row: f"{row['share']:.0%}",
    }
    return render_columns(columns, document["cost"])


if __name__ == "__main__":
    main()
