"""Writes docs/kernels.md's tables from benchmarks/results/kernels-<gpu>.json.

Run `python -m benchmarks.kernel_tables`. What stands between `<!-- NAME -->` and `<!-- /NAME -->`
is replaced.
"""

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.tables import RESULTS, ROOT, fill_section, render_table

PAGE = ROOT / "docs" / "kernels.md"
SIZES = (1024, 2048, 4096, 8192, 16384)


def main() -> None:
    """Fills both tables."""
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def fill_page(text: str) -> str:
    """The page with both tables as the results have them."""
    files = sorted(RESULTS.glob("kernels-*.json"))
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    text = fill_section(text, "speed", "\n\n".join(map(render_speed, documents)))
    return fill_section(text, "compiled", render_compiled(documents[0]))


def render_speed(document: dict[str, Any]) -> str:
    """TFLOP/s at each size, and the share of cuBLAS at the largest, of every kernel."""
    hardware, versions = document["hardware"], document["versions"]
    caption = (
        f"{hardware['gpu']}, driver {hardware['driver']}, cuBLAS {versions['nvidia-cublas']}, "
        f"NVRTC {versions['nvidia-cuda-nvrtc']}, commit {document['commit']}:"
    )
    head = ("kernel", "tile", "type", *(f"{size}³" for size in SIZES), "of cuBLAS at the largest")
    return f"{caption}\n\n{render_table(head, list_speeds(document['rows']))}"


def list_speeds(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    """A row of cells for each kernel, in the order of measurement."""
    measured: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in rows:
        key = (row["kernel"], row["tile"], row["dtype"])
        measured.setdefault(key, {})[row["m"]] = row
    for key, sizes in measured.items():
        speeds = (f"{sizes[size]['tflops']:.1f}" if size in sizes else "" for size in SIZES)
        yield [*key, *speeds, f"{sizes[max(sizes)]['ratio_to_cublas']:.0%}"]


def render_compiled(document: dict[str, Any]) -> str:
    """What the compiler reports of each kernel on one architecture."""
    reports = document["compiled"]
    head = ("kernel", "tile", "type", "threads", "registers", "spilled bytes", "shared bytes")
    names = ("kernel", "tile", "dtype", "threads", "registers", "spill_bytes", "shared_bytes")
    cells = ([str(report[name]) for name in names] for report in reports)
    return f"For {reports[0]['arch']}:\n\n{render_table(head, cells)}"


if __name__ == "__main__":
    main()
