"""The table of kernels: their speed, and that over cuBLAS's."""

from typing import Final

from benchmarks.common.results import Results
from benchmarks.common.tables import render_table
from benchmarks.kernels.ladder import RUNGS, pick_rungs
from benchmarks.kernels.rows import Row, describe
from benchmarks.kernels.suite import KERNEL_DTYPES

SIZE: Final = 4096
"""A square at which every kernel is measured."""


def render_speed(results: Results[Row]) -> str:
    """What was measured; TFLOP/s of each kernel's fastest tile, and its speed over cuBLAS's."""
    rungs = {dtype: pick_rungs(results.rows, dtype) for dtype in KERNEL_DTYPES}
    lines = [
        [name, *(_show_speed(of.get(name, {}).get(SIZE)) for of in rungs.values())]
        for name in RUNGS
        if any(name in of for of in rungs.values())
    ]
    table = render_table(("kernel", *rungs), lines)
    return f"{describe(results)}:\n\n{table}"


def _show_speed(row: Row | None) -> str:
    """TFLOP/s, and in brackets the speed over that of cuBLAS."""
    return "" if row is None else f"{row.tflops:.1f} ({row.ratio_to_cublas:.2f})"
