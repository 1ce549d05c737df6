"""Every kernel against cuBLAS on one GPU, turn by turn in one run.

Times are medians over the turns, by CUDA events. cuBLAS runs in pedantic mode: float32 is never
TF32. A product without cuBLAS has no rows.

Run `make bench-kernels`, or `python -m benchmarks.kernels [--seconds 190] [--out FOLDER]`. It
writes kernels-<gpu>.json again after every product, so a run that is cut short leaves its results.
If time runs short, kernels take fewer turns than 21: each row has their number.
"""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import Record
from benchmarks.common.shapes import Shape, name_shape, read_shape
from benchmarks.common.turns import Step, take_steps
from benchmarks.kernels.contest import (
    ALL_SHAPES,
    KERNEL_DTYPES,
    Contest,
    admit_all,
    estimate_seconds,
    pick_kernels,
    run_contest,
)
from benchmarks.kernels.rows import make_rows
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.compile import compile_kernels
from wavetrim.kernels.device import DeviceInfo, find_device
from wavetrim.kernels.errors import CompilationFailed

SECONDS: Final = 190.0
SEED: Final = 2026


def measure(
    device: DeviceInfo, cache_dir: Path, shapes: Sequence[Shape], record: Record, until: float
) -> None:
    """Measure the kernels at every product, in every element type."""
    import cupy

    specs = list_kernels(compute_capability=device.compute_capability)
    generator = cupy.random.default_rng(SEED)

    def measure_at(shape: Shape, dtype: str, seconds: float) -> None:
        """Let kernels of one element type take turns at a product for some seconds."""
        until = time.perf_counter() + seconds
        turns = pick_kernels([spec for spec in specs if spec.dtype == dtype], shape)
        cupy.get_default_memory_pool().free_all_blocks()
        contest = Contest(shape, dtype, device=device, cache_dir=cache_dir, generator=generator)
        where = name_shape(shape)
        scores = admit_all(
            *(contest, turns),
            refuse=lambda spec, why: record.leave_out(f"{spec.label} at {where}", why),
        )
        run_contest(contest, scores, turns, until)
        rows = make_rows(shape, scores)
        if not rows:
            record.leave_out(f"{where} {dtype}", "cuBLAS does not run, so nothing is compared")
        record.add(rows)

    steps = [
        Step(
            f"{name_shape(shape)} {dtype}",
            estimate_seconds(shape),
            partial(measure_at, shape, dtype),
        )
        for shape, dtype in product(shapes, KERNEL_DTYPES)
    ]
    take_steps(steps, until, record)


def main() -> None:
    """Measure every kernel at every product and write the results."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="what the whole run may take"
    )
    parser.add_argument("--shapes", type=read_shape, nargs="+", default=ALL_SHAPES, metavar="MxNxK")
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results"), help="folder of results"
    )
    arguments = parser.parse_args()
    device = find_device(0)
    environment = describe_environment()
    out: Path = arguments.out / f"kernels-{name_host(environment)}.json"
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = Path(folder)
        with contextlib.suppress(CompilationFailed):  # the one that fails says so in its contest
            specs = list_kernels(compute_capability=device.compute_capability)
            compile_kernels(specs, device.arch, cache_dir)
        print(f"compiled in {time.perf_counter() - started:.0f} s", flush=True)
        record = Record(out, environment)
        measure(device, cache_dir, arguments.shapes, record, started + arguments.seconds)
    print(f"written to {out} after {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
