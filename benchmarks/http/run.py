"""A run: baselines are started once, and then its parts are measured."""

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from benchmarks.http.baselines.baseline import (
    EXECUTOR,
    FLOOR,
    FLOOR_UNIX,
    OURS,
    OURS_LEASE,
    OURS_NEW_LEASE,
    Baseline,
    Setup,
)
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.executor_process import ExecutorFailed
from benchmarks.http.baselines.lineup import make_baselines
from benchmarks.http.baselines.server_process import ServerAbsent
from benchmarks.http.baselines.service import Service
from benchmarks.http.cases import (
    SIZE_ON_FEW_CORES,
    SIZES,
    count_variants,
    find_free_memory,
    list_cases,
    share_seconds,
)
from benchmarks.http.clients.message import AnswerMalformed
from benchmarks.http.clients.product import Product
from benchmarks.http.clients.service_calls import CallFailed
from benchmarks.http.contest import measure_case
from benchmarks.http.jobs import SIZES as JOB_SIZES
from benchmarks.http.jobs import SIZES_ON_FEW_CORES as JOB_SIZES_ON_FEW_CORES
from benchmarks.http.jobs import SPLIT_SHAPES, JobBench, find_split
from benchmarks.http.record import HEADER, Record
from benchmarks.http.rows import Case
from benchmarks.http.transfers import measure_transfers
from benchmarks.kernels.__main__ import read_shape

PARTS: Final = {"transfers": 1.0, "jobs": 3.0, "products": 6.0}
"""What is measured, in this order, and how the time of a run is shared among it."""


class Run:
    """One run: its baselines, which are started once, and its parts.

    Args:
        setup: What baselines know.
        arguments: What the command line says.
        record: Is told of all that is found.
        with_gpu: Whether the machine has one.
        at_end: Told what is to be called when all is measured.
    """

    def __init__(
        self,
        setup: Setup,
        arguments: argparse.Namespace,
        record: Record,
        *,
        with_gpu: bool,
        at_end: Callable[..., object],
    ) -> None:
        self._arguments, self._record, self._with_gpu = arguments, record, with_gpu
        self._folder = setup.folder
        self._service = Service(setup)
        at_end(self._service.stop)
        known = make_baselines(setup, self._service)
        self._baselines = start_baselines(known, arguments.baselines, record, at_end)
        self._executor = next((x for x in self._baselines if isinstance(x, ExecutorBaseline)), None)
        if self._executor is not None:
            record.describe(profile=self._executor.profile)

    def measure(self) -> None:
        """Measure part after part.

        Raises:
            WrongAnswer: An answer is not what it must be.
        """
        print(HEADER, flush=True)
        until = time.perf_counter() + self._arguments.seconds
        parts = [part for part in PARTS if part in self._arguments.parts]
        measure = {
            "transfers": self._measure_transfers,
            "jobs": self._measure_jobs,
            "products": self._measure_products,
        }
        for place, part in enumerate(parts):
            left = until - time.perf_counter()
            share = PARTS[part] / sum(PARTS[one] for one in parts[place:])
            measure[part](time.perf_counter() + share * left)

    def _measure_products(self, until: float) -> None:
        arguments = self._arguments
        usual = [size for size in SIZES if self._with_gpu or size <= SIZE_ON_FEW_CORES]
        free = find_free_memory() if arguments.memory is None else int(arguments.memory * 2**30)
        cases = []
        for case, wanted in list_cases(
            arguments.sizes or usual, arguments.dtypes, arguments.clients
        ):
            if wanted <= free:
                cases.append(case)
            else:
                room = f"it wants {wanted / 2**30:.1f} GiB free, and {free / 2**30:.1f} are"
                self._record.leave_out(str(case), room)
        measure_products(self._baselines, cases, self._record, until)

    def _measure_transfers(self, until: float) -> None:
        size = self._arguments.transfer_size
        with self._leaving_out("transfers"):
            self._service.start()
            self._record.add(measure_transfers(self._service, self._folder, size, until))

    def _measure_jobs(self, until: float) -> None:
        with self._leaving_out("jobs"):
            self._service.start()
            if self._executor is None:
                raise ServerAbsent("the executor does not run, or is not among --baselines")
            bench = JobBench(self._service, self._executor, self._folder)
            usual = JOB_SIZES if self._with_gpu else JOB_SIZES_ON_FEW_CORES
            sizes = self._arguments.job_sizes or usual
            shapes = self._arguments.split_shapes or (SPLIT_SHAPES if self._with_gpu else ())
            if not shapes:
                self._record.leave_out("split", "there is no GPU to split with")
            dtypes = self._arguments.dtypes
            cases = [Case("job", size, dtype, 1) for size in sizes for dtype in dtypes]
            cases += [find_split(shape) for shape in shapes]
            for place, case in enumerate(cases):
                seconds = (until - time.perf_counter()) / (len(cases) - place)
                if seconds <= 0:
                    self._record.leave_out(str(case), "time ran out")
                    continue
                self._measure_job(bench, case, time.perf_counter() + seconds)

    def _measure_job(self, bench: JobBench, case: Case, until: float) -> None:
        if isinstance(case.size, str):
            self._record.add(bench.measure_split(read_shape(case.size), until))
            return
        rows, why = bench.measure_squares(case.size, case.dtype, until)
        self._record.add(rows)
        if why is not None:
            self._record.leave_out("job-memory", why)

    @contextmanager
    def _leaving_out(self, part: str) -> Iterator[None]:
        """What a part lacks is noted, and the others are measured."""
        try:
            yield
        except (ServerAbsent, CallFailed, ExecutorFailed, AnswerMalformed, OSError) as error:
            self._record.leave_out(part, f"{type(error).__name__}: {error}")
            self._record.broken |= not isinstance(error, ServerAbsent)


def start_baselines(
    known: Mapping[str, Baseline],
    names: Collection[str],
    record: Record,
    at_end: Callable[..., object],
) -> list[Baseline]:
    """Start those that run here; the others are noted with their reasons.

    Args:
        known: All of them.
        names: Which are wanted; a floor brings the executor along.
        record: Is told of those that are absent.
        at_end: Told what is to be called when all is measured.
    """
    floors = {FLOOR, FLOOR_UNIX, OURS_LEASE, OURS_NEW_LEASE} & set(names)
    wanted = [name for name in known if name in names or (name == EXECUTOR and floors)]
    started = []
    for name in wanted:
        at_end(known[name].stop)
        try:
            known[name].start()
        except ServerAbsent as error:
            record.leave_out(name, str(error))
        else:
            started.append(known[name])
    return started


def measure_products(
    baselines: Sequence[Baseline], cases: Sequence[Case], record: Record, until: float
) -> None:
    """Measure case after case; those that time does not reach are noted.

    Raises:
        WrongAnswer: A baseline's answer is not its product.
    """
    for place, case in enumerate(cases):
        left = until - time.perf_counter()
        if left <= 0:
            record.leave_out(str(case), "time ran out")
            continue
        assert isinstance(case.size, int), "products are square"
        variants = count_variants(case.size, case.dtype)
        products = [Product.draw(case.size, case.dtype, seed) for seed in range(variants)]
        seconds = share_seconds(left, cases[place:])
        there = [one for one in baselines if one.abstain(case) is None]
        rows, failures = measure_case(case, there, products, seconds)
        for name, why in failures.items():
            record.leave_out(f"{name} at {case}", why)
            record.broken |= name.startswith(OURS)
        record.add(rows)
