"""One run of the benchmark of products in host memory: its steps, and what they found so far."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from benchmarks.blas_threads import BlasThreads
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.field import hold_contenders
from benchmarks.gpu_waker import GpuWaker
from benchmarks.host_contest import HostContest, make_host_rows
from benchmarks.host_names import name_contest, name_product, name_sweep, name_sweeps
from benchmarks.host_results import HostRecord
from benchmarks.host_rows import HostRow, RegretRow
from benchmarks.host_suite import (
    DTYPES,
    HELD_SMS,
    REGRET_SMS,
    SQUARES_HELD,
    count_bytes,
    estimate_seconds,
)
from benchmarks.limit import LinkRates, find_limit_seconds, measure_compute
from benchmarks.measured import Shape
from benchmarks.operands import Operands, draw_operands, pin_operands
from benchmarks.projection import Projection
from benchmarks.regret import Sweep, estimate_sweep_seconds
from benchmarks.suite import share_seconds
from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import KernelsError
from wavetrim.scheduler.errors import SchedulerError
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.plan import choose_plan
from wavetrim.scheduler.problem import MEMORIES, GemmProblem, Memory
from wavetrim.scheduler.wishes import RowsOrAuto, Wishes

Step = tuple[str, float, Callable[[float], None]]
"""What it is, about how long it should take, and what to do in so many seconds."""


class HostBench:
    """The machine, who takes part, and the time that is left.

    Args:
        executor: This product's.
        profile: What its plans are made from.
        contenders: Who takes part.
        link: The link's rates; None without a GPU.
        cache_dir: Folder of compiled kernels.
        record: Keeps what is found.
        until: Value of time.perf_counter() at which all must be done.
    """

    def __init__(
        self,
        executor: Executor,
        profile: MachineProfile,
        contenders: Sequence[Contender],
        *,
        link: LinkRates | None,
        cache_dir: Path,
        record: HostRecord,
        until: float,
    ) -> None:
        self._executor = executor
        self._profile = profile
        self._contenders = contenders
        self._link = link
        self._cache_dir = cache_dir
        self._record = record
        self._until = until
        self._blas = BlasThreads()
        devices = executor.devices
        self._wake_gpu = GpuWaker(devices[0].index).wake if devices else None

    def compare(self, shapes: Sequence[Shape], memories: Sequence[Memory] = MEMORIES) -> None:
        """Let all contenders take turns at every product, from every kind of host memory."""
        self._walk([
            (
                name_product(shape, dtype),
                sum(estimate_seconds(shape, dtype, memory) for memory in memories),
                partial(self._compare_at, shape, dtype, memories),
            )
            for shape, dtype in product(shapes, DTYPES)
        ])  # fmt: skip

    def hold(self, shapes: Sequence[Shape], memory: Memory = "pageable") -> None:
        """The same with this product only, its GPU held to some multiprocessors."""
        self._walk([
            (
                name_contest(shape, dtype, memory, sms),
                1.0 + 12 * self._predict(shape, dtype, memory, sms, f=0),
                partial(self._hold_at, shape, dtype, sms, memory),
            )
            for shape, dtype, sms in product(shapes, DTYPES, HELD_SMS)
            if shape in SQUARES_HELD
        ])  # fmt: skip

    def sweep(self, shapes: Sequence[Shape], memory: Memory = "pageable") -> None:
        """Sweep F at every product, with several budgets of multiprocessors."""
        steps = []
        for shape, dtype in product(shapes, DTYPES):
            estimates = {sms: self._estimate_sweep(shape, dtype, memory, sms) for sms in REGRET_SMS}
            for sms, seconds in estimates.items():
                if seconds == 0:
                    self._record.leave_out(name_sweep(shape, dtype, sms), "too long to sweep")
            budgets = {sms: seconds for sms, seconds in estimates.items() if seconds > 0}
            if budgets:
                drawing_seconds = 0.1 + count_bytes(shape, dtype) / 2e9
                act = partial(self._sweep_at, shape, dtype, memory, budgets)
                whole_seconds = drawing_seconds + sum(budgets.values())
                steps.append((name_sweeps(shape, dtype), whole_seconds, act))
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
        self, shape: Shape, dtype: str, memories: Sequence[Memory], seconds: float
    ) -> None:
        started = time.perf_counter()
        drawn = draw_operands(shape, dtype)
        projection = Projection(drawn)
        estimates = [estimate_seconds(shape, dtype, memory) for memory in memories]
        for place, memory in enumerate(memories):
            if memory == "pinned" and self._link is None:
                self._record.leave_out(name_contest(shape, dtype, memory), "there is no GPU")
                continue
            left = started + seconds - time.perf_counter()
            until = time.perf_counter() + left * estimates[place] / sum(estimates[place:])
            operands = pin_operands(drawn) if memory == "pinned" else drawn
            taking_part = [one for one in self._contenders if memory in one.memories]
            self._run_contest(taking_part, operands, projection, until, sms=None)

    def _hold_at(self, shape: Shape, dtype: str, sms: int, memory: Memory, seconds: float) -> None:
        until = time.perf_counter() + seconds
        operands = self._draw(shape, dtype, memory)
        contenders = hold_contenders(self._executor, self._profile, sms)
        self._run_contest(contenders, operands, Projection(operands), until, sms=sms)

    def _run_contest(
        self,
        contenders: Sequence[Contender],
        operands: Operands,
        projection: Projection,
        until: float,
        *,
        sms: int | None,
    ) -> None:
        """One contest, and its rows."""
        where = name_contest(operands.shape, operands.dtype, operands.memory, sms)
        limit_seconds = self._find_limit(operands, sms)
        try:
            scores = HostContest(operands, projection, self._blas, self._wake_gpu).run(
                contenders, until, lambda one, why: self._record.refuse(one.name, where, why)
            )
            gpu = self._profile.gpu
            sm_count = gpu.sm_count if gpu else None
            rows = make_host_rows(operands, scores, limit_seconds=limit_seconds, sm_count=sm_count)
        finally:
            for contender in contenders:
                contender.release()
        self._record.add(rows=rows)
        for row in rows:
            print(describe_row(row), flush=True)

    def _sweep_at(
        self,
        shape: Shape,
        dtype: str,
        memory: Memory,
        budgets: dict[int | None, float],
        seconds: float,
    ) -> None:
        started = time.perf_counter()
        operands = self._draw(shape, dtype, memory)
        pending = list(budgets.values())
        for place, sms in enumerate(budgets):
            left = max(0.0, started + seconds - time.perf_counter())
            share = left * pending[place] / sum(pending[place:])
            sweep = Sweep(self._executor, self._profile, operands.problem, sms)
            row = sweep.measure(operands, share)
            self._record.add(regret=[row])
            print(describe_regret(row), flush=True)

    def _draw(self, shape: Shape, dtype: str, memory: Memory) -> Operands:
        drawn = draw_operands(shape, dtype)
        return pin_operands(drawn) if memory == "pinned" else drawn

    def _find_limit(self, operands: Operands, sms: int | None) -> float | None:
        if self._link is None:
            return None
        device: DeviceInfo = self._executor.devices[0]
        compute_seconds = measure_compute(
            operands, device_index=device.index, cache_dir=self._cache_dir, sms=sms
        )
        return find_limit_seconds(
            operands.shape, operands.dtype, compute_seconds=compute_seconds, link=self._link
        )

    def _predict(
        self, shape: Shape, dtype: str, memory: Memory, sms: int | None, f: RowsOrAuto = "auto"
    ) -> float:
        problem = GemmProblem(*shape, dtype, memory)
        plan = choose_plan(problem, self._profile, Wishes(f=f, sms=sms))
        return plan.predicted.total_seconds

    def _estimate_sweep(self, shape: Shape, dtype: str, memory: Memory, sms: int | None) -> float:
        return estimate_sweep_seconds(self._predict(shape, dtype, memory, sms))


def describe_row(row: HostRow) -> str:
    """A line about a contender."""
    parts = [f"{row.seconds * 1e3:9.3f} ms"]
    if row.limit_share is not None:
        parts.append(f"{row.limit_share:.3f} of the limit")
    parts += [f"spread {row.spread:.2f}", f"{row.turns} turns"]
    parts += [f"F {row.f} → {row.f_actual}"] if row.f is not None else []
    parts += [str(row.settings)] if row.settings else []
    where = f"{row.m}x{row.n}x{row.k} {row.dtype} {row.memory} {row.sms or ''}"
    return f"{row.contender:<13} {where}: {', '.join(parts)}"


def describe_regret(row: RegretRow) -> str:
    """A line about a sweep."""
    predicted, measured = row.predicted_seconds["total"], row.measured_seconds["total"]
    return (
        f"F at {row.m}x{row.n}x{row.k} {row.dtype} {row.sms}: {row.f}, best {row.best_f}, regret "
        f"{row.regret:.3f}, {row.over_better_alone:.3f} of the better device alone; predicted "
        f"{predicted * 1e3:.3f} ms, measured {measured * 1e3:.3f} ms, {len(row.curve)} points"
    )
