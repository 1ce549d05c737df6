"""Writes docs/kernels.md's tables of what kernels wait for, and of their register banks.

Run `make figures`, or `python -m benchmarks.kernels.code_tables`; it reads
benchmarks/results/stalls-<gpu>.json and banks-<arch>.json.
"""

import json
from typing import Any, Final

from benchmarks.common.tables import RESULTS, fill_section, render_table, show, write_page
from benchmarks.kernels.tables import PAGE

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

PEAK_TFLOPS: Final = 132 * 128 * 2 * 1.98e9 / 1e12
"""Peak of an H200 at 1980 MHz: 132 multiprocessors, 128 multiply-adds a cycle in each."""

BANKS_HEAD: Final = ("kernel", "multiply-adds", "reads of shared memory", "all instructions",
                     "cycles, by the model", "so at most, TFLOP/s")  # fmt: skip


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
    """Shares of what each unit can do, in percent, and the reasons for which most warps wait."""
    caption = (
        f"{document['hardware']['gpu']}, commit {document['commit']}; percent of what each unit can"
        " do while the kernel runs, warps on each scheduler, and how many of these wait for what:"
    )
    head = ("kernel", "type", "size", *SHOWN.values(), "warps", "waiting for")
    return f"{caption}\n\n{render_table(head, map(list_stall_cells, document['rows']))}"


def list_stall_cells(row: dict[str, Any]) -> list[str]:
    """One kernel's row."""
    shares = (show(row[name], ".0f") for name in SHOWN)
    named, warps = f"{row['kernel']} {row['tile']}", show(row["warps"], ".1f")
    return [named, row["dtype"], f"{row['size']}³", *shares, warps, name_stalls(row["stalls"])]


def name_stalls(stalls: dict[str, float | None]) -> str:
    """The most frequent reasons: "register banks 0.2, memory 0.1"."""
    known = {name: value for name, value in stalls.items() if value and value >= LEAST_STALL}
    most = sorted(known, key=lambda name: -known[name])[:MOST_STALLS]
    return ", ".join(f"{name} {known[name]:.1f}" for name in most)


def render_banks(document: dict[str, Any]) -> str:
    """What each kernel's loop is made of."""
    caption = (
        f"One turn of the loop, compiled by NVRTC {document['compiler']} for {document['arch']}:"
    )
    return f"{caption}\n\n{render_table(BANKS_HEAD, map(list_bank_cells, document['rows']))}"


def list_bank_cells(row: dict[str, Any]) -> list[str]:
    """One kernel's row."""
    counts = (row["multiply_adds"], row["shared_reads"], row["instructions"], row["cycles"])
    most = PEAK_TFLOPS * row["multiply_adds"] / row["cycles"]
    return [f"{row['kernel']} {row['tile']}", *map(str, counts), f"{most:.1f}"]


if __name__ == "__main__":
    main()
