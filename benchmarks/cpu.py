"""The CPU pool against numpy.matmul with all BLAS threads, turn by turn in one run.

The pool holds BLAS to one thread for its whole process, so NumPy runs in a process of its own,
and the two take turns: one product here, one there, with a pause in which BLAS threads that still
spin go to sleep. Both write into an array that exists already.

Run `python -m benchmarks.cpu [--out FILE]`; it writes benchmarks/results/cpu-<host>.json.
"""

import argparse
import itertools
import json
import multiprocessing
import multiprocessing.connection
import statistics
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from benchmarks.environment import describe_environment, name_host
from wavetrim.cpu.gemm import CpuPool

SHAPES = [
    *((size, size, size) for size in (512, 1024, 2048, 4096)),
    *((rows, 4096, 4096) for rows in (1, 16, 64, 128, 256, 512)),
    *((4096, columns, 4096) for columns in (1, 64, 256)),
    (4096, 256, 256),
    (256, 8192, 8192),
    (64, 64, 262_144),
]
DTYPES = ("float32", "float64")
PAUSE_SECONDS = 0.16
"""Before every turn: OpenBLAS's threads spin for about 0.1 s after a product, on the cores that the
pool wants next. Both then begin with all threads asleep."""

SHAPE_SECONDS = 1.2

Operands = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def draw_operands(m: int, n: int, k: int, dtype: str) -> Operands:
    """Random A and B, and a C whose pages are there already."""
    rng = np.random.default_rng(m + n + k)
    a = rng.random((m, k), np.float32).astype(dtype)
    b = rng.random((k, n), np.float32).astype(dtype)
    return a, b, np.ones((m, n), dtype)


def serve_numpy(connection: multiprocessing.connection.Connection) -> None:
    """The child process: multiply as told with all threads of BLAS, and answer with seconds."""
    connection.send(describe_blas())
    operands: Operands | None = None
    while True:
        request = connection.recv()
        if request is None:
            return
        if isinstance(request, tuple):
            operands = draw_operands(*request)
            connection.send(None)
            continue
        assert operands is not None, "sizes come before turns"
        a, b, c = operands
        started = time.perf_counter()
        np.matmul(a, b, out=c)
        connection.send(time.perf_counter() - started)


def compare(
    pool: CpuPool,
    peer: multiprocessing.connection.Connection,
    shape: tuple[int, int, int],
    dtype: str,
) -> dict[str, Any]:
    """Seconds of both for one shape, measured alternately."""
    m, n, k = shape
    peer.send((m, n, k, dtype))
    a, b, c = draw_operands(m, n, k, dtype)
    peer.recv()
    ours: list[float] = []
    theirs: list[float] = []
    until = time.perf_counter() + SHAPE_SECONDS
    for turn in itertools.count():
        time.sleep(PAUSE_SECONDS)
        own = pool.multiply(a, b, c)
        time.sleep(PAUSE_SECONDS)
        peer.send("turn")
        other = peer.recv()
        if turn >= 2:  # the first turns wake threads and fill caches
            ours.append(own)
            theirs.append(other)
        if turn >= 8 and time.perf_counter() > until:
            break
    row = {"m": m, "n": n, "k": k, "dtype": dtype, "pool": summarize(ours, 2 * m * n * k)}
    row["numpy"] = summarize(theirs, 2 * m * n * k)
    row["speedup"] = statistics.median(theirs) / statistics.median(ours)
    return row


def summarize(seconds: list[float], flops: int) -> dict[str, float]:
    """Median, spread and rate of some measurements."""
    tenths = statistics.quantiles(seconds, n=10)
    median = statistics.median(seconds)
    return {
        "median_seconds": median,
        "p10_seconds": tenths[0],
        "p90_seconds": tenths[-1],
        "gflops": flops / median / 1e9,
        "turns": len(seconds),
    }


def describe_blas() -> list[dict[str, Any]]:
    """The BLAS libraries that are loaded, with their versions and threads."""
    kept = ("internal_api", "version", "architecture", "num_threads")
    found = threadpoolctl.threadpool_info()
    return [{key: entry.get(key) for key in kept} for entry in found if entry["user_api"] == "blas"]


def main() -> None:
    """Measure every shape and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    environment = describe_environment()
    out = arguments.out or Path(f"benchmarks/results/cpu-{name_host(environment)}.json")
    context = multiprocessing.get_context("spawn")
    connection, far_end = context.Pipe()
    process = context.Process(target=serve_numpy, args=(far_end,), daemon=True)
    process.start()
    numpy_blas = connection.recv()
    rows = []
    cache_dir = Path(mkdtemp(prefix="wavetrim-"))
    with CpuPool(cache_dir=cache_dir) as pool:
        for shape, dtype in itertools.product(SHAPES, DTYPES):
            row = compare(pool, connection, shape, dtype)
            rows.append(row)
            print(
                f"{row['m']:>6}×{row['n']}×{row['k']} {dtype}: pool {row['pool']['gflops']:.0f}, "
                f"numpy.matmul {row['numpy']['gflops']:.0f} GFLOP/s, ×{row['speedup']:.2f}"
            )
    connection.send(None)
    process.join()
    blas = {"pool": describe_blas(), "numpy": numpy_blas}
    out.parent.mkdir(parents=True, exist_ok=True)
    document = {**environment, "blas": blas, "rows": rows}
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
