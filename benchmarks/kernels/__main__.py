"""Every kernel against cuBLAS on one GPU, turn by turn in one run.

Times are medians over the turns, by CUDA events. cuBLAS runs in pedantic mode: float32 is never
TF32. Kernels that can be held to some multiprocessors are measured with several such budgets, too.
Of kernels with several tiles the file tells which one the planner takes for each product, and which
one nvMatmulHeuristics, where it is installed.

Run `make bench-kernels`, or `python -m benchmarks.kernels [--seconds 160] [--out FILE]`. It writes
benchmarks/results/kernels-<gpu>.json, anew after every product, so a run that is cut short leaves
what it had. If time runs short, kernels take fewer turns than 21: each row says how many.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import write_document
from benchmarks.kernels.compiled import compile_all, describe_compiled
from benchmarks.kernels.contest import Contest, admit_all, take_turns
from benchmarks.kernels.measured import Row, Shape
from benchmarks.kernels.meter import Meter
from benchmarks.kernels.score import Score, find_rates, make_rows
from benchmarks.kernels.suite import (
    ALL_SHAPES,
    FULL_SHAPE,
    LEAST_SMS,
    SMALL_SHAPE,
    Contestant,
    Paces,
    estimate_seconds,
    hold_contestants,
    list_budgets,
    share_seconds,
)
from benchmarks.kernels.summary import format_summary, summarize
from benchmarks.kernels.tile_choice import TileChoice, TileHeuristics, choose_tiles
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.catalog import KernelSpec, list_kernels
from wavetrim.kernels.device import DeviceInfo, find_device
from wavetrim.kernels.errors import DeviceFailure, KernelsError
from wavetrim.scheduler.profile.store import find_profile

DTYPES: Final = ("float32", "float64")
SECONDS: Final = 160.0
HELD_SECONDS: Final = 14.0
"""About what an element type takes with all budgets of multiprocessors, on an H200."""

SEED: Final = 2026


class Bench:
    """One run: the GPU, the time that is left, and what was found so far.

    Args:
        device: The GPU.
        cache_dir: Folder of compiled kernels.
        out: The results file.
        until: Value of time.perf_counter() at which all must be done.
    """

    def __init__(self, device: DeviceInfo, cache_dir: Path, out: Path, until: float) -> None:
        import cupy

        self._device = device
        self._cache_dir = cache_dir
        self._out = out
        self._until = until
        self._pool = cupy.get_default_memory_pool()
        self._generator = cupy.random.default_rng(SEED)
        self._meter = Meter(device.uuid)
        self._document: dict[str, Any] = {**describe_environment(), "compiled": []}
        self._left_out: list[str] = []
        self._paces = Paces()
        self.rows: list[Row] = []

    def note_compiled(self, reports: list[dict[str, Any]]) -> None:
        """Keep the compiler's reports."""
        self._document["compiled"] = reports

    def note_choices(self, choices: list[TileChoice]) -> None:
        """Keep which tiles are chosen."""
        self._document["choices"] = choices

    def measure(self, specs: Sequence[KernelSpec], shapes: Sequence[Shape]) -> None:
        """Measure the kernels at every product, in every element type, then with SM budgets."""
        steps: list[tuple[float, Callable[[float], None]]] = []
        for shape, dtype in product(shapes, DTYPES):
            typed = [spec for spec in specs if spec.dtype == dtype]
            steps.append((estimate_seconds(shape), partial(self._measure_shape, typed, shape)))
        for dtype in DTYPES:
            typed = [spec for spec in specs if spec.dtype == dtype]
            steps.append((HELD_SECONDS, partial(self._measure_held, typed)))
        for place, (_, step) in enumerate(steps):
            left = self._until - time.perf_counter()
            seconds = share_seconds(left, [estimate for estimate, _ in steps[place:]])
            if seconds is None:
                self._leave_out(f"step {place + 1} of {len(steps)}", f"{left:.0f} s are left")
                continue
            try:
                step(seconds)
            except KernelsError as error:
                self._leave_out(f"step {place + 1} of {len(steps)}", str(error))
                if isinstance(error, DeviceFailure) and error.poisoned:
                    raise
            finally:
                self.write()

    def write(self) -> None:
        """Write the results file."""
        found = {"summary": summarize(self.rows), "left_out": self._left_out}
        write_document(self._out, **self._document, **found, rows=self.rows)

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
        deadline = time.perf_counter() + seconds
        self._pool.free_all_blocks()
        contest = Contest(
            *(shape, contestants[0].spec.dtype),
            device=self._device,
            cache_dir=self._cache_dir,
            generator=self._generator,
            meter=self._meter,
        )
        name = "x".join(map(str, shape))
        scores = admit_all(
            *(contest, contestants),
            refuse=lambda one, why: self._leave_out(f"{one.label} at {name}", why),
        )
        admitted = list(scores.items())
        take_turns(
            [one.turns for one, _ in admitted],
            spent=lambda place: admitted[place][1].spent_seconds,
            take_turn=lambda place: contest.take_turn(*admitted[place]),
            in_time=lambda: time.perf_counter() < deadline,
        )
        return scores

    def _keep(self, contestants: Iterable[Contestant], rows: Sequence[Row]) -> None:
        """Keep rows, and tell of them."""
        for one, row in zip(contestants, rows, strict=True):
            if one.sms is None:
                self._paces.note(one.spec, row.shape, row.median_seconds)
            print(describe_row(one.label, row))
        self.rows += rows
        left = self._until - time.perf_counter()
        print(f"--- {len(self.rows)} rows, {left:.0f} s left", flush=True)

    def _leave_out(self, what: str, why: str) -> None:
        self._left_out.append(f"{what}: {why}")
        print(f"left out: {self._left_out[-1]}", flush=True)


def describe_row(label: str, row: Row) -> str:
    """A line about a row."""
    parts = [f"{row.tflops:7.2f} TFLOP/s"]
    if row.ratio_to_cublas is not None:
        parts.append(f"{row.ratio_to_cublas:.3f} of cuBLAS")
    if row.rate_share is not None:
        parts.append(f"{row.rate_share:.3f} of its share")
    parts += [f"error {row.max_relative_error:.1e}", f"{row.turns} turns"]
    if row.clock_mhz is not None:
        parts.append(f"{row.clock_mhz:.0f} MHz")
    if row.power_watts is not None:
        parts.append(f"{row.power_watts:.0f} W")
    if not row.same_bits:
        parts.append("OTHER BITS THE SECOND TIME")
    return f"{label:<32} {row.m}x{row.n}x{row.k}: {', '.join(parts)}"


def read_shape(text: str) -> Shape:
    """M, N and K of "MxNxK"."""
    m, n, k = map(int, text.split("x"))
    return m, n, k


def main() -> None:
    """Measure every kernel at every product and write the results."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="what the whole run may take"
    )
    parser.add_argument("--shapes", type=read_shape, nargs="+", default=ALL_SHAPES, metavar="MxNxK")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = find_device(0)
    default = f"benchmarks/results/kernels-{name_host(describe_environment())}.json"
    out: Path = arguments.out or Path(default)
    out.parent.mkdir(parents=True, exist_ok=True)
    specs = list_kernels(compute_capability=device.compute_capability)
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = Path(folder)
        compiled = compile_all(specs, device.arch, cache_dir)
        print(f"compiled {len(compiled)} kernels in {time.perf_counter() - started:.0f} s")
        bench = Bench(device, cache_dir, out, started + arguments.seconds)
        bench.note_compiled([describe_compiled(*pair, device.arch) for pair in compiled])
        heuristics = TileHeuristics.find(device.name)
        profile = find_profile(None, devices=[device], directory=None, cpu_threads=usable_cores())
        bench.note_choices(choose_tiles(specs, arguments.shapes, profile, heuristics))
        working = {spec for spec, _ in compiled}
        bench.measure([x for x in specs if x in working or x.source is None], arguments.shapes)
    print(format_summary(summarize(bench.rows)))
    print(f"written to {out} after {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
