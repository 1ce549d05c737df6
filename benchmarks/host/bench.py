"""One run of the benchmark of products in host memory: its steps, and what they found so far."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.common.blas_threads import BlasThreads
from benchmarks.common.gpu_waker import GpuWaker
from benchmarks.common.operands import Operands, draw_operands, pin_operands
from benchmarks.common.projection import Projection
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.contest import HostContest, make_host_rows
from benchmarks.host.limit import LinkRates, find_limit_seconds, measure_compute
from benchmarks.host.results import HostRecord
from benchmarks.host.rows import HostRow, SweepRow
from benchmarks.host.suite import Product, name_contest, name_shape, name_sweep
from benchmarks.host.sweep import Sweep, estimate_sweep_seconds
from benchmarks.kernels.suite import share_seconds
from wavetrim.kernels.errors import KernelsError
from wavetrim.scheduler.errors import SchedulerError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.plan import choose_plan
from wavetrim.scheduler.problem import Memory
from wavetrim.scheduler.profile.machine import MachineProfile

Step = tuple[str, float, Callable[[float], None]]
"""What it is, about how long it should take, and what to do in that time."""

SWEPT_MEMORY: Memory = "pageable"


class HostBench:
    """The machine, and the time that is left.

    Args:
        executor: This product's.
        profile: What its plans are made from.
        link: The link's rates; None without a GPU.
        cache_dir: Folder of compiled kernels.
        record: Keeps what is found.
        until: Value of time.perf_counter() at which all must be done.
    """

    def __init__(
        self,
        executor: Executor,
        profile: MachineProfile,
        *,
        link: LinkRates | None,
        cache_dir: Path,
        record: HostRecord,
        until: float,
    ) -> None:
        self._executor = executor
        self._profile = profile
        self._link = link
        self._cache_dir = cache_dir
        self._record = record
        self._until = until
        self._blas = BlasThreads()
        devices = executor.devices
        self._wake_gpu = GpuWaker(devices[0].index).wake if devices else None

    def compare(
        self,
        products: Sequence[Product],
        baselines: Sequence[Baseline],
        memories: Sequence[Memory],
    ) -> None:
        """Let the baselines take turns at every product, from every kind of host memory."""
        self._walk([
            (
                str(product),
                sum(map(product.estimate_seconds, memories)),
                partial(self._compare_at, product, baselines, memories),
            )
            for product in products
        ])  # fmt: skip

    def sweep(self, sweeps: Sequence[tuple[Product, int | None]]) -> None:
        """Sweep F at products, the GPU held to some multiprocessors; None for all."""
        if self._link is None:
            self._record.leave_out("sweeps", "there is no GPU")
            return
        steps: list[Step] = []
        for product, sms in sweeps:
            plan = choose_plan(product.place_in(SWEPT_MEMORY), self._profile, PlanOptions(sms=sms))
            seconds = estimate_sweep_seconds(plan.predicted.total_seconds)
            name = name_sweep(product, sms)
            if seconds == 0:
                self._record.leave_out(name, "too long to sweep")
            else:
                drawing_seconds = product.size_bytes / 2e9
                act = partial(self._sweep_at, product, sms)
                steps.append((name, drawing_seconds + seconds, act))
        self._walk(steps)

    def _walk(self, steps: Sequence[Step]) -> None:
        """Take the steps that there is time for; each has its share of what is left."""
        for place, (name, _, act) in enumerate(steps):
            left = self._until - time.perf_counter()
            seconds = share_seconds(left, [estimate for _, estimate, _ in steps[place:]])
            if seconds is None:
                self._record.leave_out(name, f"{left:.0f} s are left")
                continue
            try:
                act(seconds)
            except (KernelsError, SchedulerError, MemoryError) as error:
                self._record.leave_out(name, f"{type(error).__name__}: {error}")
            finally:
                self._record.write()
                print(f"--- {name}, {self._until - time.perf_counter():.0f} s left", flush=True)

    def _compare_at(
        self,
        product: Product,
        baselines: Sequence[Baseline],
        memories: Sequence[Memory],
        seconds: float,
    ) -> None:
        started = time.perf_counter()
        drawn = draw_operands(product.shape, product.dtype)
        projection = Projection(drawn)
        estimates = list(map(product.estimate_seconds, memories))
        for place, memory in enumerate(memories):
            if memory == "pinned" and self._link is None:
                self._record.leave_out(name_contest(product, memory), "there is no GPU")
                continue
            left = started + seconds - time.perf_counter()
            until = time.perf_counter() + left * estimates[place] / sum(estimates[place:])
            taking_part = [
                x for x in baselines if memory in x.memories and product.group in x.groups
            ]
            operands = pin_operands(drawn) if memory == "pinned" else drawn
            contest = HostContest(operands, projection, self._blas, self._wake_gpu)
            self._run_contest(contest, taking_part, product, operands, until)

    def _run_contest(
        self,
        contest: HostContest,
        baselines: Sequence[Baseline],
        product: Product,
        operands: Operands,
        until: float,
    ) -> None:
        """One contest, and its rows."""
        where = name_contest(product, operands.memory)
        limit_seconds = self._find_limit(operands) if product.group == "suite" else None
        try:
            scores = contest.run(
                baselines, until, lambda one, why: self._record.refuse(one.name, where, why)
            )
            rows = make_host_rows(
                operands, scores, limit_seconds=limit_seconds, group=product.group
            )
        finally:
            for baseline in baselines:
                baseline.release()
        self._record.rows += rows
        for row in rows:
            print(describe_row(row), flush=True)

    def _sweep_at(self, product: Product, sms: int | None, seconds: float) -> None:
        operands = draw_operands(product.shape, product.dtype)
        sweep = Sweep(self._executor, self._profile, operands.problem, sms)
        row = sweep.measure(operands, seconds)
        self._record.regret.append(row)
        print(describe_sweep(row), flush=True)

    def _find_limit(self, operands: Operands) -> float | None:
        if self._link is None:
            return None
        compute_seconds = measure_compute(
            operands, device_index=self._executor.devices[0].index, cache_dir=self._cache_dir
        )
        return find_limit_seconds(
            operands.shape, operands.dtype, compute_seconds=compute_seconds, link=self._link
        )


def describe_row(row: HostRow) -> str:
    """A line about a baseline."""
    parts = [f"{row.seconds * 1e3:9.3f} ms"]
    if row.limit_share is not None:
        parts.append(f"{row.limit_share:.3f} of the limit")
    parts += [f"spread {row.spread:.2f}", f"{row.turns} turns"]
    parts += [f"F {row.f} → {row.f_actual}"] if row.f is not None else []
    parts += [str(row.settings)] if row.settings else []
    where = f"{name_shape(row.shape)} {row.dtype} {row.memory}"
    return f"{row.baseline:<15} {where}: {', '.join(parts)}"


def describe_sweep(row: SweepRow) -> str:
    """A line about a sweep."""
    predicted, measured = row.predicted_seconds["total"], row.measured_seconds["total"]
    return (
        f"F at {name_shape(row.shape)} {row.dtype} {row.sms}: {row.f}, best {row.best_f}, regret "
        f"{row.regret:.3f}, {row.over_better_alone:.3f} of the better device alone; predicted "
        f"{predicted * 1e3:.3f} ms, measured {measured * 1e3:.3f} ms, {len(row.curve)} points"
    )
