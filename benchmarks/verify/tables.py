"""Writes the tables of docs/verify.md from results/verify.json."""

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.common.tables import RESULTS, ROOT, fill_section, render_table, write_page

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
    """What was measured on, and of which commit."""
    hardware, versions = document["hardware"], document["versions"]
    gpu = f"{hardware['gpu']} beside " if hardware["gpu"] else ""
    return (
        f"{gpu}{hardware['cores']} cores of {hardware['cpu']}; NumPy {versions['numpy']}; commit "
        f"{document['commit']}:"
    )


def render_missed(document: dict[str, Any]) -> str:
    """A row for each kind of damage, a column for each type: how many passed, of how many."""
    missed = {(row["change"], row["type"]): row for row in document["rows"]}
    changes, types = (list(dict.fromkeys(names)) for names in zip(*missed, strict=True))
    rows: list[list[str]] = [
        [
            change,
            *(_show_share(missed[change, one]["missed"], missed[change, one]) for one in types),
        ]
        for change in changes
    ]
    right = {row["type"]: row for row in document["right"]}
    alarms = (_show_share(right[one]["false_alarms"], right[one]) for one in types)
    rows.append(["right products that do not pass", *alarms])
    return render_table(("Change", *types), rows)


def _show_share(count: int, row: dict[str, Any]) -> str:
    return f"{count} of {row['tries']}"


def render_cost(document: dict[str, Any]) -> str:
    """Milliseconds of products without and with their check."""
    return render_table(
        ("Product", "computed by", "alone, ms", "with its check, ms", "more"), _list_costs(document)
    )


def _list_costs(document: dict[str, Any]) -> Iterator[list[str]]:
    for row in document["cost"]:
        size, gpu_rows = row["size"], row["gpu_rows"]
        device = {0: "CPU", size: "GPU"}.get(gpu_rows, "both")
        yield [
            f"{size}³ {row['type']}",
            device,
            f"{row['product_seconds'] * 1e3:.1f}",
            f"{row['checked_seconds'] * 1e3:.1f}",
            f"{row['share']:.0%}",
        ]


if __name__ == "__main__":
    main()
