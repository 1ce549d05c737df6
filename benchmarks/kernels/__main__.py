"""Every kernel against cuBLAS on one GPU, turn by turn in one run.

Times are medians over the turns, by CUDA events. cuBLAS runs in pedantic mode: float32 is never
TF32. Kernels that can be held to some multiprocessors are measured with several such budgets, too.
For kernels with several tiles the file has the one that the planner takes for each product, and
that of nvMatmulHeuristics, if it is installed.

Run `make bench-kernels`, or `python -m benchmarks.kernels [--seconds 190] [--out FOLDER]`. It
writes kernels-<gpu>.json again after every product, so a run that is cut short leaves its results.
If time runs short, kernels take fewer turns than 21: each row has their number.
"""

import argparse
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import Record
from benchmarks.common.shapes import Shape, name_shape, read_shape
from benchmarks.common.steps import Step, take_steps
from benchmarks.kernels.compilation import compile_all, describe_compiled
from benchmarks.kernels.contest import Contest, admit_all, run_contest
from benchmarks.kernels.meter import Meter
from benchmarks.kernels.rows import Row, Score, describe_row, find_rates, make_rows
from benchmarks.kernels.suite import (
    ALL_SHAPES,
    FULL_SHAPE,
    KERNEL_DTYPES,
    LEAST_SMS,
    SMALL_SHAPE,
    Contestant,
    Paces,
    estimate_seconds,
    hold_contestants,
    list_budgets,
)
from benchmarks.kernels.summary import format_summary, summarize
from benchmarks.kernels.tile_choice import TileHeuristics, choose_tiles
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import DeviceInfo, find_device
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.profile.store import find_profile

SECONDS: Final = 190.0
HELD_SECONDS: Final = 14.0
"""About the time of an element type with all budgets of multiprocessors, on an H200."""

SEED: Final = 2026


class Bench:
    """One run on one GPU."""

    def __init__(self, device: DeviceInfo, cache_dir: Path, record: Record, until: float) -> None:
        import cupy

        self._device = device
        self._cache_dir = cache_dir
        self._record = record
        self._until = until
        self._pool = cupy.get_default_memory_pool()
        self._generator = cupy.random.default_rng(SEED)
        self._meter = Meter(device.uuid)
        self._paces = Paces()

    def measure(self, specs: Sequence[KernelSpec], shapes: Sequence[Shape]) -> None:
        """Measure the kernels at every product, in every element type, then with SM budgets."""
        typed = {dtype: [spec for spec in specs if spec.dtype == dtype] for dtype in KERNEL_DTYPES}
        steps = [
            Step(
                f"{name_shape(shape)} {dtype}",
                estimate_seconds(shape),
                partial(self._measure_shape, typed[dtype], shape),
            )
            for shape, dtype in product(shapes, KERNEL_DTYPES)
        ]
        steps += [
            Step(f"held {dtype}", HELD_SECONDS, partial(self._measure_held, typed[dtype]))
            for dtype in KERNEL_DTYPES
        ]
        take_steps(steps, self._until, self._record)

    def _measure_shape(self, specs: Sequence[KernelSpec], shape: Shape, seconds: float) -> None:
        scores = self._compare(shape, self._paces.pick(specs, shape), seconds)
        self._keep(scores, make_rows(shape, scores, self._device.sm_count))

    def _measure_held(self, specs: Sequence[KernelSpec], seconds: float) -> None:
        """Rates with few multiprocessors, over their share of the rate with all of them."""
        sm_count = self._device.sm_count
        budgets = list_budgets(sm_count)
        full_rates: dict[KernelSpec, float] = {}
        for shape, held, share in (
            (FULL_SHAPE, [sms for sms in budgets if sms >= LEAST_SMS], 0.8),
            (SMALL_SHAPE, [sms for sms in budgets if sms < LEAST_SMS], 0.2),
        ):
            scores = self._compare(shape, hold_contestants(specs, held), share * seconds)
            rates = find_rates(shape, scores)
            full_rates |= {one.spec: rate for one, rate in rates.items() if one.sms == sm_count}
            known = {one: score for one, score in scores.items() if one.spec in full_rates}
            self._keep(known, make_rows(shape, known, sm_count, full_rates))

    def _compare(
        self, shape: Shape, contestants: Sequence[Contestant], seconds: float
    ) -> dict[Contestant, Score]:
        """Let kernels of one element type take turns at a product for some seconds."""
        if not contestants:
            return {}
        until = time.perf_counter() + seconds
        self._pool.free_all_blocks()
        contest = Contest(
            *(shape, contestants[0].spec.dtype),
            device=self._device,
            cache_dir=self._cache_dir,
            generator=self._generator,
            meter=self._meter,
        )
        where = name_shape(shape)
        scores = admit_all(
            *(contest, contestants),
            refuse=lambda one, why: self._record.leave_out(f"{one.label} at {where}", why),
        )
        run_contest(contest, scores, until)
        return scores

    def _keep(self, contestants: Iterable[Contestant], rows: Sequence[Row]) -> None:
        """Keep rows, and print them."""
        for one, row in zip(contestants, rows, strict=True):
            if one.sms is None:
                self._paces.note(one.spec, row.shape, row.median_seconds)
        self._record.document["summary"] = summarize([*self._record.rows, *rows])
        self._record.add(rows, describe_row)


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
    specs = list_kernels(compute_capability=device.compute_capability)
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = Path(folder)
        compiled = compile_all(specs, device.arch, cache_dir)
        print(f"compiled {len(compiled)} kernels in {time.perf_counter() - started:.0f} s")
        profile = find_profile(None, devices=[device], directory=None, cpu_threads=usable_cores())
        heuristics = TileHeuristics.find(device.name)
        found = {
            "compiled": [describe_compiled(*pair, device.arch) for pair in compiled],
            "choices": choose_tiles(specs, arguments.shapes, profile, heuristics),
            "summary": summarize([]),
        }
        record = Record(out, environment | found)
        bench = Bench(device, cache_dir, record, started + arguments.seconds)
        working = {spec for spec, _ in compiled}
        bench.measure([x for x in specs if x in working or x.source is None], arguments.shapes)
    print(format_summary(summarize(record.rows)))
    print(f"written to {out} after {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
