"""Writes docs/kernels.md's table of register banks from benchmarks/results/banks-<arch>.json.

Run `python -m benchmarks.bank_tables`. What stands between `<!-- banks -->` and `<!-- /banks -->`
is replaced.
"""

import json
from typing import Any, Final

from benchmarks.kernel_tables import PAGE
from benchmarks.tables import RESULTS, fill_section, render_table

PEAK_TFLOPS: Final = 132 * 128 * 2 * 1.98e9 / 1e12
"""Of an H200 at 1980 MHz: 132 multiprocessors, 128 multiply-adds in a cycle each."""

HEAD: Final = (
    *("kernel", "multiply-adds", "reads of shared memory", "all instructions"),
    *("cycles, by the model", "so at most, TFLOP/s"),
)


def main() -> None:
    """Fills the table."""
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def fill_page(text: str) -> str:
    """The page with the table as the results have it."""
    files = sorted(RESULTS.glob("banks-*.json"))
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return fill_section(text, "banks", "\n\n".join(map(render_banks, documents)))


def render_banks(document: dict[str, Any]) -> str:
    """What each kernel's loop is made of."""
    caption = (
        f"One turn of the loop, compiled by NVRTC {document['compiler']} for {document['arch']}:"
    )
    return f"{caption}\n\n{render_table(HEAD, map(list_cells, document['rows']))}"


def list_cells(row: dict[str, Any]) -> list[str]:
    """One kernel's row."""
    counts = (row["multiply_adds"], row["shared_reads"], row["instructions"], row["cycles"])
    most = PEAK_TFLOPS * row["multiply_adds"] / row["cycles"]
    return [f"{row['kernel']} {row['tile']}", *map(str, counts), f"{most:.1f}"]


if __name__ == "__main__":
    main()
