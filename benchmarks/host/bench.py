"""One run of the benchmark of products in host memory."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Operands, draw_operands, pin_operands
from benchmarks.common.results import Record
from benchmarks.common.shapes import name_shape
from benchmarks.common.steps import Step, share_time, take_steps
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.baselines.lineup import make_baselines
from benchmarks.host.contest import HostContest, WrongProductError, make_host_rows
from benchmarks.host.limit import LinkRates, find_limit_seconds, measure_compute
from benchmarks.host.machine import BlasThreads, GpuWakers
from benchmarks.host.results import HostRow, SweepRow
from benchmarks.host.suite import Product
from benchmarks.host.sweep import Sweep, estimate_sweep_seconds
from benchmarks.host.throughput import measure_throughput
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import Memory
from wavetrim.scheduler.profile.machine import MachineProfile

SWEPT_MEMORY: Memory = "pageable"


class HostBench:
    """One run: the machine, its results and its time.

    Attributes:
        regret: Sweeps so far; part of the record's document.
    """

    def __init__(
        self,
        executor: Executor,
        profile: MachineProfile,
        *,
        link: LinkRates | None,
        cache_dir: Path,
        record: Record,
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
        indices = dict.fromkeys(device.index for device in devices)
        self._wake_gpu = GpuWakers(indices).wake if devices else None
        self.regret: list[SweepRow] = record.document.setdefault("regret", [])

    def compare(
        self, products: Sequence[Product], names: Sequence[str], memories: Sequence[Memory]
    ) -> None:
        """Let baselines take turns at every product, from every kind of host memory."""
        baselines = make_baselines(self._executor, self._profile, names, self._record.leave_out)
        steps = [
            Step(
                str(product),
                sum(map(product.estimate_seconds, memories)),
                partial(self._compare_at, product, baselines, memories),
            )
            for product in products
        ]
        take_steps(steps, self._until, self._record)

    def measure_throughput(self) -> None:
        """Products a second by the number of GPUs, if there are several; part of the document."""
        if len(self._executor.devices) > 1:
            rows = measure_throughput(self._executor, self._profile, until=self._until)
            self._record.document["throughput"] = rows
            for row in rows:
                print(row, flush=True)

    def sweep(self, sweeps: Sequence[tuple[Product, int | None]]) -> None:
        """Sweep F at products, the GPU held to some multiprocessors; None for all."""
        if self._link is None:
            self._record.leave_out("sweeps", "there is no GPU")
            return
        steps: list[Step] = []
        for product, sms in sweeps:
            plan = choose_plan(product.place_in(SWEPT_MEMORY), self._profile, PlanOptions(sms=sms))
            seconds = estimate_sweep_seconds(plan.predicted.total_seconds)
            name = f"F at {product}, {'all' if sms is None else sms} multiprocessors"
            if seconds == 0:
                self._record.leave_out(name, "too long to sweep")
            else:
                seconds += product.size_bytes / 2e9  # to draw the operands
                steps.append(Step(name, seconds, partial(self._sweep_at, product, sms)))
        take_steps(steps, self._until, self._record)

    def _compare_at(
        self,
        product: Product,
        baselines: Sequence[Baseline],
        memories: Sequence[Memory],
        seconds: float,
    ) -> None:
        until = time.perf_counter() + seconds
        drawn = draw_operands(product.shape, product.dtype)
        check = FreivaldsCheck(drawn)
        weights = list(map(product.estimate_seconds, memories))
        for memory, memory_until in share_time(memories, weights, until):
            if memory == "pinned" and self._link is None:
                self._record.leave_out(f"{product} {memory}", "there is no GPU")
                continue
            operands = pin_operands(drawn) if memory == "pinned" else drawn
            contest = HostContest(operands, check, self._blas, self._wake_gpu)
            those = [x for x in baselines if memory in x.memories and product.group in x.groups]
            self._run_contest(contest, those, product, operands, memory_until)

    def _run_contest(
        self,
        contest: HostContest,
        baselines: Sequence[Baseline],
        product: Product,
        operands: Operands,
        until: float,
    ) -> None:
        """Run one contest, and keep its rows."""

        def refuse(baseline: Baseline, why: str) -> None:
            what = f"{baseline.name} at {product} {operands.memory}"
            if why.startswith(WrongProductError.__name__):
                self._record.failed.append(what)
            self._record.leave_out(what, why)

        limit_seconds = self._find_limit(operands) if product.group == "suite" else None
        try:
            scores = contest.run(baselines, until, refuse)
            rows = make_host_rows(
                operands, scores, limit_seconds=limit_seconds, group=product.group
            )
        finally:
            for baseline in baselines:
                baseline.release()
        self._record.add(rows, describe_row)

    def _sweep_at(self, product: Product, sms: int | None, seconds: float) -> None:
        operands = draw_operands(product.shape, product.dtype)
        sweep = Sweep(self._executor, self._profile, operands.problem, sms)
        self.regret.append(sweep.measure(operands, seconds))
        print(describe_sweep(self.regret[-1]), flush=True)

    def _find_limit(self, operands: Operands) -> float | None:
        if self._link is None:
            return None
        compute_seconds = measure_compute(
            operands, device_index=self._executor.devices[0].index, cache_dir=self._cache_dir
        )
        compute_seconds /= len(self._executor.devices)
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
