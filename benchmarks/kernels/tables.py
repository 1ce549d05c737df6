"""Writes docs/kernels.md's table from results/kernels-<gpu>.json.

Run `make figures`, or `python -m benchmarks.kernels.tables`.
"""

from typing import Final

from benchmarks.common.tables import RESULTS, ROOT, SHOWN, fill_section, render_table, write_page
from benchmarks.kernels.ladder import RUNGS, pick_rungs
from benchmarks.kernels.rows import Results, Row, read_results
from benchmarks.kernels.suite import KERNEL_DTYPES

PAGE: Final = ROOT / "docs" / "kernels.md"
SIZE: Final = 4096
"""A square at which every kernel is measured."""


def main() -> None:
    """Fill the page."""
    write_page(PAGE, lambda text: fill_page(text, read_results(RESULTS, SHOWN)[0]))


def fill_page(text: str, results: Results) -> str:
    """The page with the speed of every kernel."""
    return fill_section(text, "speed", f"{results.caption}:\n\n{render_speed(results)}")


def render_speed(results: Results) -> str:
    """TFLOP/s of each kernel's fastest tile, and its speed over cuBLAS's, for each type."""
    rungs = {dtype: pick_rungs(results.rows, dtype) for dtype in KERNEL_DTYPES}
    lines = [
        [name, *(_show_speed(of.get(name, {}).get(SIZE)) for of in rungs.values())]
        for name in RUNGS
        if any(name in of for of in rungs.values())
    ]
    return render_table(("kernel", *rungs), lines)


def _show_speed(row: Row | None) -> str:
    """TFLOP/s, and in brackets the speed over that of cuBLAS."""
    return "" if row is None else f"{row.tflops:.1f} ({row.ratio_to_cublas:.2f})"


if __name__ == "__main__":
    main()
