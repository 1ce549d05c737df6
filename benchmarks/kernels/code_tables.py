"""Writes docs/kernels.md's tables of what kernels wait for, and of their register banks.

Run `make figures`, or `python -m benchmarks.kernels.code_tables`; it reads
benchmarks/results/stalls-<gpu>.json and banks-<arch>.json.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from benchmarks.common.tables import RESULTS, fill_section, render_columns, show, write_page
from benchmarks.kernels.tables import PAGE

Columns = dict[str, Callable[[dict[str, Any]], str]]

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
"""Least warps of a reason that is shown, and most reasons; chosen."""

PEAK_TFLOPS: Final = 132 * 128 * 2 * 1.98e9 / 1e12
"""Peak of an H200 at 1980 MHz: 132 multiprocessors, 128 multiply-adds a cycle in each."""


def main() -> None:
    """Fill the tables."""
    write_page(PAGE, fill_page)


def fill_page(text: str) -> str:
    """The page with the tables as the results have them."""
    for name, render in {"stalls": render_stalls, "banks": render_banks}.items():
        files = sorted(RESULTS.glob(f"{name}-*.json"))
        documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        text = fill_section(text, name, "\n\n".join(map(render, documents)))
    return text


def render_stalls(document: dict[str, Any]) -> str:
    """Utilization of each unit in percent, and the reasons for which most warps wait."""
    caption = (
        f"{document['hardware']['gpu']}, commit {document['commit']}; percent of what each unit can"
        " do while the kernel runs, warps on each scheduler, and how many of these wait for what:"
    )
    columns: Columns = {
        "kernel": lambda row: f"{row['kernel']} {row['tile']}",
        "type": lambda row: row["dtype"],
        "size": lambda row: f"{row['size']}³",
        **{head: partial(_show_share, name) for name, head in SHOWN.items()},
        "warps": lambda row: show(row["warps"], ".1f"),
        "waiting for": lambda row: name_stalls(row["stalls"]),
    }
    return f"{caption}\n\n{render_columns(columns, document['rows'])}"


def _show_share(name: str, row: dict[str, Any]) -> str:
    return show(row[name], ".0f")


def name_stalls(stalls: dict[str, float | None]) -> str:
    """The most frequent reasons: "register banks 0.2, memory 0.1"."""
    known = {name: value for name, value in stalls.items() if value and value >= LEAST_STALL}
    most = sorted(known, key=lambda name: -known[name])[:MOST_STALLS]
    return ", ".join(f"{name} {known[name]:.1f}" for name in most)


def render_banks(document: dict[str, Any]) -> str:
    """The counts of each kernel's loop."""
    caption = (
        f"One turn of the loop, compiled by NVRTC {document['compiler']} for {document['arch']}:"
    )
    columns: Columns = {
        "kernel": lambda row: f"{row['kernel']} {row['tile']}",
        "multiply-adds": lambda row: str(row["multiply_adds"]),
        "reads of shared memory": lambda row: str(row["shared_reads"]),
        "all instructions": lambda row: str(row["instructions"]),
        "cycles, by the model": lambda row: str(row["cycles"]),
        "so at most, TFLOP/s": lambda row: (
            f"{PEAK_TFLOPS * row['multiply_adds'] / row['cycles']:.1f}"
        ),
    }
    return f"{caption}\n\n{render_columns(columns, document['rows'])}"


if __name__ == "__main__":
    main()
