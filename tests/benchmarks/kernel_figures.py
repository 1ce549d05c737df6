"""Results of kernels, from figures that nobody measured."""

from dataclasses import asdict
from typing import Any

from benchmarks.kernels.rows import Results, Row
from benchmarks.kernels.suite import ALL_SHAPES, FULL_SHAPE

HEAD: dict[str, Any] = {
    "hardware": {"gpu": "NVIDIA Abacus", "driver": "1.2"},
    "versions": {"nvidia-cublas": "3.4", "nvidia-cuda-nvrtc": "5.6"},
    "commit": "abc",
    "compiled": [
        {
            "kernel": "bulk",
            "tile": "128x256x16",
            "dtype": "float32",
            "arch": "sm_90a",
            "threads": 384,
            "registers": 168,
            "spill_bytes": 0,
            "shared_bytes": 1024,
        }
    ],
}
ENTRIES = (
    ("naive", "32x32x32", "float32", "strict", 1.0),
    ("bulk", "128x256x16", "float32", "strict", 100.0),
    ("tensor", "128x128x32", "float32", "float32", 200.0),
    ("cublas", "128x256x8", "float32", "library", 50.0),
    ("tensor", "128x64x32", "float64", "float64", 25.0),
    ("cublas", "64x128x16", "float64", "library", 50.0),
    ("tensor", "128x256x64", "float16", "library", 55.0),
    ("cublas", "128x256x64", "float16", "library", 50.0),
)


def invent_row(
    kernel: str, tile: str, dtype: str, accuracy: str, tflops: float, **changes: Any
) -> Row:
    """A row at the full shape, beside a cuBLAS of 50 TFLOP/s."""
    m, n, k = changes.pop("shape", FULL_SHAPE)
    figures: dict[str, Any] = {
        "sms": 12,
        "ratio_to_cublas": tflops / 50.0,
        "max_relative_error": 1e-7,
        "cublas_max_relative_error": 2e-7,
        "median_seconds": 2e-12 * m * n * k / tflops,
        "spread": 0.01,
        "turns": 21,
        "launches": 1,
        "same_bits": kernel != "bulk",
        "clock_mhz": 1700.0,
        "power_watts": 650.0,
    }
    return Row(m, n, k, dtype, kernel, tile, accuracy, tflops=tflops, **(figures | changes))


def invent_results(pace: float = 1.0) -> Results:
    """Rows at every shape, with the same rate at all of them, and two SM budgets."""
    rows = [
        invent_row(*entry[:4], pace * entry[4], shape=shape)
        for shape in ALL_SHAPES
        for entry in ENTRIES
    ]
    rows += [
        invent_row(*ENTRIES[1][:4], rate, sms=sms, rate_share=share, clock_mhz=clock)
        for sms, rate, share, clock in ((1, 7.5, 0.9, 1700.0), (12, 100.0, 1.0, 1530.0))
    ]
    document = HEAD | {"rows": [asdict(row) for row in rows]}
    return Results("abacus", document, tuple(rows))
