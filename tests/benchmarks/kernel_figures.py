"""Results of kernels, from figures that nobody measured."""

from dataclasses import asdict
from typing import Any

from benchmarks.common.shapes import Shape
from benchmarks.kernels.rows import Results, Row
from benchmarks.kernels.suite import ALL_SHAPES

HEAD: dict[str, Any] = {
    "hardware": {"gpu": "NVIDIA Abacus", "driver": "1.2"},
    "versions": {"nvidia-cublas": "3.4", "nvidia-cuda-nvrtc": "5.6"},
    "commit": "abc",
}
ENTRIES = (
    ("naive", "32x32x32", "float32", 1.0),
    ("bulk", "128x256x16", "float32", 100.0),
    ("tensor", "128x128x32", "float32", 200.0),
    ("cublas", "128x256x8", "float32", 50.0),
    ("tensor", "128x64x32", "float64", 25.0),
    ("cublas", "64x128x16", "float64", 50.0),
    ("tensor", "128x256x64", "float16", 55.0),
    ("cublas", "128x256x64", "float16", 50.0),
)


def invent_row(kernel: str, tile: str, dtype: str, tflops: float, *, shape: Shape) -> Row:
    """A row beside a cuBLAS of 50 TFLOP/s."""
    m, n, k = shape
    return Row(
        *(m, n, k, dtype, kernel, tile),
        sms=12,
        tflops=tflops,
        ratio_to_cublas=tflops / 50.0,
        median_seconds=2e-12 * m * n * k / tflops,
        spread=0.01,
        turns=21,
    )


def invent_results(pace: float = 1.0) -> Results:
    """Rows at every shape, with the same rate at all of them."""
    rows = [
        invent_row(*entry[:3], pace * entry[3], shape=shape)
        for shape in ALL_SHAPES
        for entry in ENTRIES
    ]
    document = HEAD | {"rows": [asdict(row) for row in rows]}
    return Results("abacus", document, tuple(rows))
