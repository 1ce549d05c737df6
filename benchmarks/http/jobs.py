"""Jobs from the accepted POST until they have succeeded, against the executor and the disk."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.common.operands import Matrix, draw_operands
from benchmarks.common.shapes import Shape, make_cube
from benchmarks.common.turns import take_turns
from benchmarks.http.baselines.baseline import Name
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.service import Service
from benchmarks.http.clients.message import encode_npy
from benchmarks.http.clients.service_calls import WAITING, ServiceCalls
from benchmarks.http.disk import time_write
from benchmarks.http.rows import Case, Row, summarize_rounds
from benchmarks.http.transfers import store_matrix

SIZES: Final = (4096, 8192)
SIZES_ON_FEW_CORES: Final = (1024, 2048)
"""Sizes of square jobs, with and without a GPU."""

SPLIT_SHAPES: Final[tuple[Shape, ...]] = (
    (16384, 16384, 256),
    (12000, 12000, 100),
    (65536, 512, 128),
    (20000, 8000, 160),
    (10000, 20000, 200),
    (131072, 256, 64),
)
"""Products whose copies take longer than their arithmetic."""

WITHOUT_SPLIT: Final = "wavetrim-f0"
DISK: Final = "disk"
ROUNDS: Final = 7
LEAST_ROUNDS: Final = 3
PAUSE_SECONDS: Final = 0.2
"""Pause before every turn, in which the last one's deferred work is done."""

_IN_MEMORY: Final = {"storage": "memory"}


@dataclass(slots=True)
class _Turns:
    """The turns of a job, the executor or the disk."""

    seconds: list[float] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def summarize(self, case: Case, baseline: str, floor_seconds: float) -> Row:
        """The row, with the plan and times that the jobs report."""
        rounds = [[one] for one in self.seconds]
        row = summarize_rounds(case, baseline, rounds, floor_seconds=floor_seconds)
        if not self.jobs:
            return row
        plan, timings = (self.jobs[-1].get(name) or {} for name in ("plan", "timings"))
        actual = timings.get("f_actual")
        return replace(
            row,
            server_seconds=statistics.median(map(_count_seconds, self.jobs)),
            f=plan.get("f"),
            f_actual=None if actual is None else int(actual),
            note=f"GET with {WAITING}",
        )


class JobBench:
    """Measures jobs of one service."""

    def __init__(self, service: Service, executor: ExecutorBaseline, folder: Path) -> None:
        self._service, self._executor, self._folder = service, executor, folder

    def measure_square(self, size: int, dtype: str, until: float) -> list[Row]:
        """A square product: with a result on disk, and with one in memory."""
        ways: dict[str, dict[str, Any]] = {"job": {}, "job-memory": _IN_MEMORY}
        turns = self._take_turns(make_cube(size), dtype, ways, until)
        product, disk = turns[Name.EXECUTOR].median, turns[DISK].median
        rows = []
        for name in ways:
            case, floor = Case(name, size, dtype, clients=1), product
            if name == "job":
                floor = max(product, disk)
            row = turns[name].summarize(case, Name.OURS, floor)
            rows.append(replace(row, disk_seconds=disk, executor_seconds=product))
            rows.append(turns[Name.EXECUTOR].summarize(case, Name.EXECUTOR, product))
        return rows

    def measure_split(self, shape: Shape, until: float) -> list[Row]:
        """A product that the link bounds, with F as the model has it and with F = 0."""
        ways: dict[str, dict[str, Any]] = {
            Name.OURS: {**_IN_MEMORY, "f": "auto"},
            WITHOUT_SPLIT: {**_IN_MEMORY, "f": 0},
        }
        turns = self._take_turns(shape, "float32", ways, until)
        case, floor = find_split(shape), turns[Name.EXECUTOR].median
        return [turns[name].summarize(case, name, floor) for name in ways]

    def _take_turns(
        self, shape: Shape, dtype: str, ways: dict[str, dict[str, Any]], until: float
    ) -> dict[str, _Turns]:
        """Jobs, posted in several ways, in turns with the executor and the disk."""
        operands = draw_operands(shape, dtype)
        result_bytes = operands.c.nbytes
        stored = {name: self._store(getattr(operands, name)) for name in "ab"}
        del operands
        turns = {name: _Turns() for name in (Name.EXECUTOR, DISK, *ways)}

        def compute() -> None:
            turns[Name.EXECUTOR].seconds += self._executor.run(shape, dtype, 0.0).seconds

        def write() -> None:
            turns[DISK].seconds.append(time_write(self._folder, result_bytes))

        def run_job(name: str) -> None:
            job, seconds = calls.run_job(**stored, **ways[name])
            turns[name].seconds.append(seconds)
            turns[name].jobs.append(job)
            calls.call("DELETE", f"/v1/matrices/{job['result']}")

        sides: list[Callable[[], None]] = [compute, write]
        sides += [partial(run_job, name) for name in ways]
        with ServiceCalls(self._service.port) as calls:
            try:
                job, _ = calls.run_job(**stored, verify=True)
                calls.call("DELETE", f"/v1/matrices/{job['result']}")
                for _, side in take_turns(sides, ROUNDS, least=LEAST_ROUNDS, until=until):
                    time.sleep(PAUSE_SECONDS)
                    side()
            finally:
                for matrix in stored.values():
                    calls.call("DELETE", f"/v1/matrices/{matrix}")
        return turns

    def _store(self, matrix: Matrix) -> str:
        """Upload a matrix; returns its id."""
        address = ("127.0.0.1", self._service.port)
        _, stored = store_matrix(address, "/v1/matrices", encode_npy(matrix))
        return str(stored["id"])


def find_split(shape: Shape) -> Case:
    """The case of a product that the link bounds."""
    return Case("split", "x".join(map(str, shape)), "float32", clients=1)


def _count_seconds(job: dict[str, Any]) -> float:
    """From a job's created_at to its finished_at."""
    begin, end = (datetime.fromisoformat(job[name]) for name in ("created_at", "finished_at"))
    return (end - begin).total_seconds()
