"""A run: baselines are started once, and then its parts are measured."""

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.common.results import Record
from benchmarks.common.shapes import read_shape
from benchmarks.common.steps import share_time
from benchmarks.http.baselines.baseline import Baseline, BaselineFailed, Name, Setup
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.lineup import make_baselines
from benchmarks.http.baselines.server_process import ServerAbsent
from benchmarks.http.baselines.service import Service
from benchmarks.http.cases import (
    SIZE_ON_FEW_CORES,
    SIZES,
    count_variants,
    find_free_memory,
    list_cases,
    weigh_case,
)
from benchmarks.http.clients.message import AnswerMalformed
from benchmarks.http.clients.product import Product
from benchmarks.http.clients.service_calls import CallFailed
from benchmarks.http.contest import measure_case
from benchmarks.http.jobs import SIZES as JOB_SIZES
from benchmarks.http.jobs import SIZES_ON_FEW_CORES as JOB_SIZES_ON_FEW_CORES
from benchmarks.http.jobs import SPLIT_SHAPES, JobBench, find_split
from benchmarks.http.rows import HEADER, Case, describe_row
from benchmarks.http.transfers import measure_transfers

PARTS: Final = {"transfers": 1.0, "jobs": 3.0, "products": 6.0}
"""The parts of a run in order, and each part's share of its time; chosen."""


class Run:
    """One run: its baselines, which are started once, and its parts."""

    def __init__(
        self, setup: Setup, arguments: argparse.Namespace, record: Record, stack: ExitStack
    ) -> None:
        self._arguments, self._record, self._folder = arguments, record, setup.folder
        self._with_gpu = record.document["hardware"]["gpu"] is not None
        self._service = Service(setup)
        stack.callback(self._service.stop)
        known = make_baselines(setup, self._service)
        self._baselines = start_baselines(known, arguments.baselines, record, stack)
        self._executor = next((x for x in self._baselines if isinstance(x, ExecutorBaseline)), None)
        if self._executor is not None:
            record.document["profile"] = self._executor.profile

    def measure(self) -> None:
        """Measure part after part."""
        print(HEADER, flush=True)
        measure: dict[str, Callable[[float], None]] = {
            "transfers": self._measure_transfers,
            "jobs": self._measure_jobs,
            "products": self._measure_products,
        }
        parts = [part for part in PARTS if part in self._arguments.parts]
        weights = [PARTS[part] for part in parts]
        end = time.perf_counter() + self._arguments.seconds
        for part, until in share_time(parts, weights, end):
            measure[part](until)

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
            rows = measure_transfers(self._service, self._folder, size, until)
            self._record.add(rows, describe_row)

    def _measure_jobs(self, until: float) -> None:
        arguments, record = self._arguments, self._record
        with self._leaving_out("jobs"):
            self._service.start()
            if self._executor is None:
                raise ServerAbsent("the executor does not run, or is not among --baselines")
            bench = JobBench(self._service, self._executor, self._folder)
            sizes = arguments.job_sizes or (JOB_SIZES if self._with_gpu else JOB_SIZES_ON_FEW_CORES)
            shapes = arguments.split_shapes or (SPLIT_SHAPES if self._with_gpu else ())
            if not shapes:
                record.leave_out("split", "there is no GPU to split with")
            cases = [Case("job", size, dtype, 1) for size in sizes for dtype in arguments.dtypes]
            cases += [find_split(shape) for shape in shapes]
            for case, case_until in share_time(cases, [1.0] * len(cases), until):
                if case_until <= time.perf_counter():
                    record.leave_out(str(case), "time ran out")
                elif isinstance(case.size, str):
                    shape = read_shape(case.size)
                    record.add(bench.measure_split(shape, case_until), describe_row)
                else:
                    rows = bench.measure_square(case.size, case.dtype, case_until)
                    record.add(rows, describe_row)

    @contextmanager
    def _leaving_out(self, part: str) -> Iterator[None]:
        """If a part fails, that is noted, and the others are measured."""
        try:
            yield
        except (ServerAbsent, CallFailed, BaselineFailed, AnswerMalformed, OSError) as error:
            self._record.leave_out(part, f"{type(error).__name__}: {error}")
            if not isinstance(error, ServerAbsent):
                self._record.failed.append(part)


def start_baselines(
    known: Mapping[str, Baseline], names: Collection[str], record: Record, stack: ExitStack
) -> list[Baseline]:
    """Start those that run here, and note why others do not."""
    floors = {Name.FLOOR, Name.FLOOR_UNIX, Name.OURS_LEASE, Name.OURS_NEW_LEASE} & set(names)
    started = []
    for name, baseline in known.items():
        if name not in names and not (name == Name.EXECUTOR and floors):
            continue
        stack.callback(baseline.stop)
        try:
            baseline.start()
        except ServerAbsent as error:
            record.leave_out(name, str(error))
        else:
            started.append(baseline)
    return started


def measure_products(
    baselines: Sequence[Baseline], cases: Sequence[Case], record: Record, until: float
) -> None:
    """Measure case after case; those for which time runs out are noted.

    Raises:
        WrongAnswer: A baseline's answer is not its product.
    """
    for case, case_until in share_time(cases, list(map(weigh_case, cases)), until):
        seconds = case_until - time.perf_counter()
        if seconds <= 0:
            record.leave_out(str(case), "time ran out")
            continue
        assert isinstance(case.size, int), "products are square"
        variants = count_variants(case.size, case.dtype)
        products = [Product.draw(case.size, case.dtype, seed) for seed in range(variants)]
        there = [one for one in baselines if one.takes_part(case)]
        rows, failures = measure_case(case, there, products, seconds)
        for name, why in failures.items():
            record.leave_out(f"{name} at {case}", why)
            if name.startswith(Name.OURS):
                record.failed.append(f"{name} at {case}")
        record.add(rows, describe_row)
