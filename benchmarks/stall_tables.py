"""Writes docs/kernels.md's table of what kernels wait for: benchmarks/results/stalls-<gpu>.json.

Run `python -m benchmarks.stall_tables`. What stands between `<!-- stalls -->` and
`<!-- /stalls -->` is replaced.
"""

import json
from typing import Any, Final

from benchmarks.kernel_tables import PAGE
from benchmarks.tables import RESULTS, fill_section, render_table

SHOWN: Final = {
    "issue_percent": "issuing",
    "fma_percent": "FP32",
    "fp64_percent": "FP64",
    "tensor_percent": "tensor cores",
    "shared_percent": "shared memory",
    "l2_percent": "L2",
    "dram_percent": "DRAM",
}
LEAST_STALL: Final = 0.05
MOST_STALLS: Final = 3


def main() -> None:
    """Fills the table."""
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def fill_page(text: str) -> str:
    """The page with the table as the results have it."""
    files = sorted(RESULTS.glob("stalls-*.json"))
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return fill_section(text, "stalls", "\n\n".join(map(render_stalls, documents)))


def render_stalls(document: dict[str, Any]) -> str:
    """Shares of what each unit can do, in percent, and the reasons for which most warps wait."""
    caption = (
        f"{document['hardware']['gpu']}, commit {document['commit']}; percent of what each unit can"
        " do while the kernel runs, warps on each scheduler, and how many of these wait for what:"
    )
    head = ("kernel", "type", "size", *SHOWN.values(), "warps", "waiting for")
    return f"{caption}\n\n{render_table(head, map(list_cells, document['rows']))}"


def list_cells(row: dict[str, Any]) -> list[str]:
    """One kernel's row."""
    shares = ("" if row[name] is None else f"{row[name]:.0f}" for name in SHOWN)
    warps = "" if row["warps"] is None else f"{row['warps']:.1f}"
    named = f"{row['kernel']} {row['tile']}"
    return [named, row["dtype"], f"{row['size']}³", *shares, warps, name_stalls(row["stalls"])]


def name_stalls(stalls: dict[str, float | None]) -> str:
    """The most frequent reasons: "register banks 0.2, memory 0.1"."""
    known = {name: value for name, value in stalls.items() if value and value >= LEAST_STALL}
    most = sorted(known, key=lambda name: -known[name])[:MOST_STALLS]
    return ", ".join(f"{name} {known[name]:.1f}" for name in most)


if __name__ == "__main__":
    main()
