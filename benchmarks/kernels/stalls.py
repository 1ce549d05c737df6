"""What each kernel waits for, by NVIDIA's profiler: one launch of each under `ncu`.

Run `python -m benchmarks.kernels.stalls [--out FILE]` on a machine with a CUDA GPU and Nsight
Compute; it writes benchmarks/results/stalls-<gpu>.json. The profiler runs a kernel several times,
with empty caches, so its seconds are not the benchmark's. Clocks are left as they are.
"""

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import write_document
from benchmarks.kernels.suite import is_textbook
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import find_device
from wavetrim.kernels.spec import KernelSpec

SIZE: Final = 4096
TEXTBOOK_SIZE: Final = 2048
"""Size for textbook kernels, which are slow and wait in the same way at every size."""

MARK: Final = "mark_next"
"""A kernel that does nothing, launched before each product, which may be several launches."""

_STALLED: Final = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS: Final = {
    "memory": _STALLED.format("long_scoreboard"),
    "shared memory": _STALLED.format("short_scoreboard"),
    "memory queue": _STALLED.format("lg_throttle"),
    "shared queue": _STALLED.format("mio_throttle"),
    "register banks": _STALLED.format("dispatch_stall"),
    "arithmetic": _STALLED.format("math_pipe_throttle"),
    "latency": _STALLED.format("wait"),
    "barrier": _STALLED.format("barrier"),
    "tensor cores": _STALLED.format("gmma"),
    "instructions": _STALLED.format("no_instruction"),
}
"""Reasons → metric: warps that waited for it, on average, in a cycle with an instruction issued."""

SHARES: Final = {
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "fma_percent": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "fp64_percent": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "shared_percent": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_active",
    "l1_percent": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l2_percent": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "warps": "smsp__warps_active.avg.per_cycle_active",
}
"""Utilization of each unit, and warps on each of a multiprocessor's four schedulers."""

_SECONDS: Final = "gpu__time_duration.sum"
_FLUSHED: Final = "all"


def list_profiled(specs: Sequence[KernelSpec]) -> list[KernelSpec]:
    """The default tile of each kernel and element type."""
    first = {(spec.name, spec.dtype): spec for spec in reversed(specs)}
    return [spec for spec in specs if first[spec.name, spec.dtype] is spec]


def choose_size(spec: KernelSpec) -> int:
    """M = N = K at which a kernel is profiled."""
    return TEXTBOOK_SIZE if is_textbook(spec) else SIZE


def launch_all(cache_dir: Path) -> None:
    """Launch every kernel, once without and once with the profiler."""
    import cupy
    from cupy.cuda import runtime

    from wavetrim.kernels.gemm.resident import multiply_on_device

    mark = cupy.ElementwiseKernel("", "int32 x", "x = 0", MARK)
    marked = cupy.empty(1, "int32")
    generator = cupy.random.default_rng(0)
    for spec in list_profiled(list_kernels(compute_capability=find_device(0).compute_capability)):
        size = choose_size(spec)
        a, b = ((generator.random((size, size)) * 2 - 1).astype(spec.dtype) for _ in "AB")
        c = cupy.empty_like(a)
        multiply_on_device(spec, a, b, c, cache_dir=cache_dir)
        cupy.cuda.Device().synchronize()
        runtime.profilerStart()
        mark(marked)
        multiply_on_device(spec, a, b, c, cache_dir=cache_dir)
        cupy.cuda.Device().synchronize()
        runtime.profilerStop()


def profile(cache_dir: Path) -> str:
    """The profiler's CSV of `launch_all`."""
    ncu = shutil.which("ncu", path="/usr/local/cuda/bin") or shutil.which("ncu")
    if ncu is None:
        raise FileNotFoundError("ncu, which comes with the CUDA toolkit, is not on the PATH")
    metrics = ",".join([_SECONDS, *STALLS.values(), *SHARES.values()])
    command = [
        *(ncu, "--csv", "--page", "raw", "--clock-control", "none", "--cache-control", _FLUSHED),
        *("--profile-from-start", "off", "--metrics", metrics, "--print-units", "base"),
        *(sys.executable, "-m", "benchmarks.kernels.stalls", "--launch", str(cache_dir)),
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return finished.stdout


def read_products(text: str) -> list[dict[str, str]]:
    """The longest launch of each profiled product, in their order."""
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    products: list[list[dict[str, str]]] = []
    for row in csv.DictReader(lines[head:]):
        if not row["ID"].strip().isdigit():  # the line of units
            continue
        if row["Kernel Name"].startswith(MARK):
            products.append([])
        else:
            products[-1].append(row)
    return [max(rows, key=lambda row: read_number(row[_SECONDS]) or 0.0) for rows in products]


def read_number(text: str) -> float | None:
    """A figure as the profiler prints it; None if it is no number."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def describe(spec: KernelSpec, launch: dict[str, str]) -> dict[str, Any]:
    """JSON-ready."""
    return {
        "kernel": spec.name,
        "tile": str(spec.tile),
        "dtype": spec.dtype,
        "size": choose_size(spec),
        "function": launch["Kernel Name"],
        **{name: read_number(launch.get(metric, "")) for name, metric in SHARES.items()},
        "stalls": {name: read_number(launch.get(metric, "")) for name, metric in STALLS.items()},
    }


def main() -> None:
    """Profile every kernel and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.launch:
        launch_all(arguments.launch)
        return
    environment = describe_environment()
    out = arguments.out or Path(f"benchmarks/results/stalls-{name_host(environment)}.json")
    specs = list_profiled(list_kernels(compute_capability=find_device(0).compute_capability))
    with tempfile.TemporaryDirectory() as folder:
        products = read_products(profile(Path(folder)))
    rows = [describe(spec, product) for spec, product in zip(specs, products, strict=True)]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_document(out, **environment, rows=rows)
    print(f"written to {out}")


if __name__ == "__main__":
    main()
