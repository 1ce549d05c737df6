"""The main job, host to host: the plan beside the GPU alone, the CPU alone and plain CuPy.

Run `python -m benchmarks.main_job [--profile FILE] [--out FILE] [SIZE ...]`. All contenders work on
the same pageable arrays and take turns in one run; figures are medians with their quartiles. Where
there is no GPU, its contenders are left out and F is M.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from benchmarks.environment import describe_environment, name_host
from benchmarks.host import find_profile
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.description import describe_plan
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.plan import Plan, choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.verify import verify_product
from wavetrim.scheduler.wishes import Wishes

DTYPES = ("float32", "float64")
Contender = Callable[[], float]


def main() -> int:
    """Measure, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1024, 4096, 8192])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--profile", type=Path, help="a profile, or a results file that has one")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    environment = describe_environment()
    out = arguments.out or Path(f"benchmarks/results/main-job-{name_host(environment)}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    cache_dir = Path(mkdtemp(prefix="wavetrim-"))
    rows: list[dict[str, Any]] = []
    with Executor(cache_dir=cache_dir, devices=list_devices()) as executor:
        profile = find_profile(executor, cache_dir, arguments.profile, None)
        document = {**environment, "profile": profile.as_dict(), "rows": rows}
        for dtype in DTYPES:
            for size in arguments.sizes:
                rows.append(measure_size(executor, profile, size, dtype, arguments.repeats))
                print(json.dumps(rows[-1]), flush=True)
                # Anew after every row, so a run that is cut short leaves what it had.
                out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["verified"] for row in rows) else 1


def measure_size(
    executor: Executor, profile: MachineProfile, size: int, dtype: str, repeats: int
) -> dict[str, Any]:
    """One row: all contenders on one square product."""
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((size, size)).astype(dtype) for _ in range(2))
    c = np.zeros((size, size), dtype)
    problem = GemmProblem(size, size, size, dtype)
    plan = choose_plan(problem, profile)

    def run(chosen: Plan) -> Contender:
        return lambda: executor.run(chosen, a, b, c).total_seconds

    contenders = {
        "measured": run(plan),
        "cpu_only": run(choose_plan(problem, profile, Wishes(f=size))),
    }
    if executor.pipeline is not None:
        contenders["gpu_only"] = run(choose_plan(problem, profile, Wishes(f=0)))
        contenders["cupy"] = lambda: _time_plain_cupy(a, b)
    samples = take_turns(contenders, repeats)
    executor.run(plan, a, b, c)
    row: dict[str, Any] = {"m": size, "n": size, "k": size, "dtype": dtype}
    row |= {name: value for name, value in describe_plan(plan).items() if name != "profile"}
    row["predicted_seconds"] = plan.predicted.total_seconds
    for name, values in samples.items():
        quartiles = statistics.quantiles(values, n=4)
        row[f"{name}_seconds"] = quartiles[1]
        row[f"{name}_quartiles_seconds"] = [quartiles[0], quartiles[2]]
    row["verified"] = verify_product(a, b, None, c).passed
    return row


def take_turns(contenders: dict[str, Contender], repeats: int) -> dict[str, list[float]]:
    """Seconds of each contender; one warm-up each, then round after round."""
    for contender in contenders.values():
        contender()
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            samples[name].append(contender())
    return samples


def _time_plain_cupy(a: Any, b: Any) -> float:
    import cupy

    start = time.perf_counter()
    cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
