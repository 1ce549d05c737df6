"""Every kernel against cuBLAS on one GPU, turn by turn in one run.

All kernels of an element type multiply the same random operands, and take turns, so that clocks
and temperature are the same for all. Times are medians over the turns, by CUDA events. cuBLAS runs
in pedantic mode: float32 is never TF32.

Run `python -m benchmarks.kernels [--sizes 1024 4096] [--out FILE]`; it writes
benchmarks/results/kernels-<gpu>.json.
"""

import argparse
import json
import math
import random
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from benchmarks.environment import describe_environment, name_host
from kernels.catalog import KernelSpec, list_kernels
from kernels.compile import CompiledKernel, compile_kernel
from kernels.device import find_device
from kernels.gemm import multiply_on_device

DTYPES = ("float32", "float64")
SIZES = (1024, 2048, 4096, 8192, 16384)
TURNS = 21
TURN_SECONDS = 2e-3
MOST_LAUNCHES = 20
"""Short products are launched several times a turn, one behind the other."""

AHEAD_BYTES = 2**33
"""Memory that the GPU fills (about 2 ms) while the host enqueues a turn: enqueueing a product takes
longer than computing a small one."""

MOST_SECONDS = 0.5
"""A kernel that took this long at one size takes no more turns there, once it had three."""

MOST_LAUNCH_SECONDS = 0.1
"""A kernel without a tiling is left out of sizes at which one launch should take longer, going by
the size before: larger sizes only show the same rate again."""

CHECKED_ROWS = 32
CHECKED_COLUMNS = 64

Extended = npt.NDArray[np.longdouble]


class Contest:
    """Kernels of one element type that take turns at one product.

    Args:
        specs: The kernels.
        shape: M, N, K.
        cache_dir: Folder of compiled kernels.
    """

    def __init__(
        self, specs: Sequence[KernelSpec], shape: tuple[int, int, int], cache_dir: Path
    ) -> None:
        self._specs = specs
        self._cache_dir = cache_dir
        m, n, k = shape
        generator = cupy.random.default_rng(m + n + k)
        dtype = specs[0].dtype
        self._a = (generator.random((m, k)) * 2 - 1).astype(dtype)
        self._b = (generator.random((k, n)) * 2 - 1).astype(dtype)
        self._c = cupy.empty((m, n), dtype)
        self._ahead = cupy.empty(min(AHEAD_BYTES, find_device(0).memory_bytes // 4), cupy.uint8)
        self._checked = (
            slice(None, None, max(1, m // CHECKED_ROWS)),
            slice(None, None, max(1, n // CHECKED_COLUMNS)),
        )

    def measure(self) -> dict[KernelSpec, list[float]]:
        """Seconds of a launch in every turn but each kernel's first two."""
        for spec in self._specs:  # compiles, loads, and wakes the clocks
            self._time_launches(spec, 1)
        launches = {
            spec: math.ceil(min(MOST_LAUNCHES, TURN_SECONDS / self._time_launches(spec, 1)))
            for spec in self._specs
        }
        seconds: dict[KernelSpec, list[float]] = {spec: [] for spec in self._specs}
        order = list(self._specs)
        for turn in range(TURNS):
            random.Random(turn).shuffle(order)  # what ran just before sways clocks and caches
            for spec in order:
                if len(seconds[spec]) < 3 or sum(seconds[spec]) < MOST_SECONDS:
                    seconds[spec].append(self._time_launches(spec, launches[spec]))
        return seconds

    def find_error(self, spec: KernelSpec) -> float:
        """Largest error of some elements, relative to |A|·|B|."""
        self._c.fill(cupy.nan)
        multiply_on_device(spec, self._a, self._b, self._c, cache_dir=self._cache_dir)
        product, scale = self._reference
        error = abs(cupy.asnumpy(self._c[self._checked]) - product) / scale
        return float(error.max())

    @cached_property
    def _reference(self) -> tuple[Extended, Extended]:
        """A·B and |A|·|B| where they are checked, in extended precision."""
        rows, columns = self._checked
        a = cupy.asnumpy(self._a[rows]).astype(np.longdouble)
        b = cupy.asnumpy(self._b[:, columns]).astype(np.longdouble)
        return a @ b, abs(a) @ abs(b)

    def _time_launches(self, spec: KernelSpec, launches: int) -> float:
        """Mean seconds of some launches in a row."""
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        self._ahead.data.memset_async(0, self._ahead.nbytes)
        start.record()
        for _ in range(launches):
            multiply_on_device(spec, self._a, self._b, self._c, cache_dir=self._cache_dir)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3 / launches


def compare(
    specs: Sequence[KernelSpec], shape: tuple[int, int, int], cache_dir: Path
) -> list[dict[str, Any]]:
    """One row for each kernel; `specs` holds cuBLAS, with which all are compared."""
    contest = Contest(specs, shape, cache_dir)
    seconds = contest.measure()
    m, n, k = shape
    (cublas,) = (spec for spec in specs if spec.name == "cublas")
    cublas_seconds = statistics.median(seconds[cublas])
    cublas_error = contest.find_error(cublas)
    rows = []
    for spec in specs:
        median = statistics.median(seconds[spec])
        row = {
            "kernel": spec.name,
            "tile": str(spec.tile),
            "dtype": spec.dtype,
            "accuracy": spec.accuracy,
            "m": m,
            "n": n,
            "k": k,
            "sms": find_device(0).sm_count,
            "median_seconds": median,
            "spread": (max(seconds[spec]) - min(seconds[spec])) / median,
            "turns": len(seconds[spec]),
            "tflops": 2 * m * n * k / median / 1e12,
            "ratio_to_cublas": cublas_seconds / median,
            "max_relative_error": contest.find_error(spec),
            "cublas_max_relative_error": cublas_error,
        }
        rows.append(row)
        print(
            f"{spec.label:<32} {m}x{n}x{k}: {row['tflops']:7.2f} TFLOP/s, "
            f"{row['ratio_to_cublas']:.3f} of cuBLAS, error {row['max_relative_error']:.1e}",
            flush=True,
        )
    return rows


def compile_all(specs: Sequence[KernelSpec], cache_dir: Path) -> None:
    """Compile on all cores, so that the GPU does not wait."""
    sources = [spec for spec in specs if spec.source]
    arch = find_device(0).arch
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(compile_kernel, sources, repeat(arch), repeat(cache_dir)))


def describe_compiled(specs: Sequence[KernelSpec], cache_dir: Path) -> list[dict[str, Any]]:
    """The compiler's report of each kernel, for this GPU."""
    arch = find_device(0).arch
    reports: list[tuple[KernelSpec, CompiledKernel]] = [
        (spec, compile_kernel(spec, arch, cache_dir)) for spec in specs if spec.source
    ]
    return [
        {
            "kernel": spec.name,
            "tile": str(spec.tile),
            "dtype": spec.dtype,
            "arch": arch,
            "threads": spec.threads,
            "registers": compiled.registers,
            "spill_bytes": compiled.spill_bytes,
            "shared_bytes": spec.shared_bytes,
        }
        for spec, compiled in reports
    ]


def main() -> None:
    """Measure every kernel at every size and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    environment = describe_environment()
    out = arguments.out or Path(f"benchmarks/results/kernels-{name_host(environment)}.json")
    rows: list[dict[str, Any]] = []
    specs = list_kernels(compute_capability=find_device(0).compute_capability)
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = Path(folder)
        compile_all(specs, cache_dir)
        for dtype in DTYPES:
            remaining = [spec for spec in specs if spec.dtype == dtype]
            for size in sorted(arguments.sizes):
                measured = compare(remaining, (size, size, size), cache_dir)
                remaining = [
                    spec
                    for spec, row in zip(remaining, measured, strict=True)
                    if spec.tiling
                    or spec.source is None
                    or 8 * row["median_seconds"] <= MOST_LAUNCH_SECONDS
                ]
                rows += measured
        compiled = describe_compiled(specs, cache_dir)
    out.parent.mkdir(parents=True, exist_ok=True)
    document = {**environment, "compiled": compiled, "rows": rows}
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
