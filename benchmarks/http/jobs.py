"""Jobs from the accepted POST until they have succeeded, beside the executor and the disk."""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.common.operands import Matrix, draw_operands
from benchmarks.http.baselines.baseline import EXECUTOR, OURS
from benchmarks.http.baselines.executor import ExecutorBaseline
from benchmarks.http.baselines.service import Service
from benchmarks.http.clients.message import encode_npy
from benchmarks.http.clients.service_calls import ServiceCalls
from benchmarks.http.disk import time_write
from benchmarks.http.rows import Case, Row, summarize_turns
from benchmarks.http.transfers import store_matrix
from benchmarks.kernels.measured import Shape

SIZES: Final = (4096, 8192)
SIZES_ON_FEW_CORES: Final = (1024, 2048)
"""On a machine without a GPU, where the larger ones would take seconds each."""

SPLIT_SHAPES: Final[tuple[Shape, ...]] = (
    (16384, 16384, 256),
    (12000, 12000, 100),
    (65536, 512, 128),
    (20000, 8000, 160),
    (10000, 20000, 200),
    (131072, 256, 64),
)
"""Products whose bytes take longer than their arithmetic."""

WITHOUT_SPLIT: Final = "wavetrim-f0"
DISK: Final = "disk"
ROUNDS: Final = 7
LEAST_ROUNDS: Final = 3
PAUSE_SECONDS: Final = 0.2
"""Before every turn: what the one before left behind is done by then."""


@dataclass(slots=True)
class _Turns:
    """What a baseline's turns found."""

    seconds: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)


class JobBench:
    """Measures jobs of one service.

    Args:
        service: Started.
        executor: Started, with the service's profile.
        folder: On the service's file system.
    """

    def __init__(self, service: Service, executor: ExecutorBaseline, folder: Path) -> None:
        self._service, self._executor, self._folder = service, executor, folder

    def measure_squares(self, size: int, dtype: str, until: float) -> tuple[list[Row], str | None]:
        """A square product: with a result on disk, and with one in memory.

        Args:
            size: Rows and columns of A, B and C.
            dtype: Element type.
            until: Value of time.perf_counter() by which it should be over.

        Returns:
            The rows, and why there is none of a result in memory; None where there is.

        Raises:
            CallFailed: The service refused a call, or a job failed.
            WrongAnswer: An upload was not kept.
            OSError: A connection broke.
        """
        with ServiceCalls(self._service.port) as calls:
            option = calls.find_memory_option()
            shape = (size, size, size)
            ways: dict[str, dict[str, Any]] = {"job": {}}
            if option is not None:
                ways["job-memory"] = {**option}
            turns = self._take_turns(calls, shape, dtype, ways, until)
            product = statistics.median(turns[EXECUTOR].seconds)
            disk = statistics.median(turns[DISK].seconds)
            rows = []
            for name in ways:
                floor = max(product, disk) if name == "job" else product
                case = Case(name, size, dtype, clients=1)
                row = _describe(case, OURS, turns[name], floor, calls.waiting)
                rows.append(replace(row, disk_seconds=disk, executor_seconds=product))
                rows.append(summarize_turns(case, EXECUTOR, turns[EXECUTOR].seconds, product))
        why = None if option else "the service keeps no job's result in memory alone"
        return rows, why

    def measure_split(self, shape: Shape, until: float) -> list[Row]:
        """A product that the link bounds, with F as the model has it and with F = 0.

        Raises:
            CallFailed: The service refused a call, or a job failed.
            WrongAnswer: An upload was not kept.
            OSError: A connection broke.
        """
        with ServiceCalls(self._service.port) as calls:
            option = calls.find_memory_option() or {}
            ways: dict[str, dict[str, Any]] = {
                OURS: {**option, "f": "auto"},
                WITHOUT_SPLIT: {**option, "f": 0},
            }
            turns = self._take_turns(calls, shape, "float32", ways, until)
            floor = statistics.median(turns[EXECUTOR].seconds)
            case = find_split(shape)
            return [_describe(case, name, turns[name], floor, calls.waiting) for name in ways]

    def _take_turns(
        self,
        calls: ServiceCalls,
        shape: Shape,
        dtype: str,
        ways: dict[str, dict[str, Any]],
        until: float,
    ) -> dict[str, _Turns]:
        operands = draw_operands(shape, dtype)
        result_bytes = operands.c.nbytes
        stored = [self._store(matrix) for matrix in (operands.a, operands.b)]
        del operands
        turns = {name: _Turns() for name in (*ways, EXECUTOR, DISK)}

        def run_job(name: str, asked: dict[str, Any]) -> None:
            job, seconds = calls.run_job(a=stored[0], b=stored[1], **asked)
            turns[name].seconds.append(seconds)
            turns[name].server.append(_count_seconds(job))
            turns[name].last = job
            calls.call("DELETE", f"/v1/matrices/{job['result']}")

        def compute() -> None:
            turns[EXECUTOR].seconds += self._executor.run_shape(shape, dtype, 0.0).seconds

        def write() -> None:
            turns[DISK].seconds.append(time_write(self._folder, result_bytes))

        sides: list[Callable[[], None]] = [compute, write]
        sides += [lambda name=name, asked=ways[name]: run_job(name, asked) for name in ways]  # type: ignore[misc]
        try:
            job, _ = calls.run_job(a=stored[0], b=stored[1], verify=True)
            calls.call("DELETE", f"/v1/matrices/{job['result']}")
            for turn in range(ROUNDS):
                if turn >= LEAST_ROUNDS and time.perf_counter() > until:
                    break
                first = turn % len(sides)
                for side in (*sides[first:], *sides[:first]):
                    time.sleep(PAUSE_SECONDS)
                    side()
        finally:
            for matrix in stored:
                calls.call("DELETE", f"/v1/matrices/{matrix}")
        return turns

    def _store(self, matrix: Matrix) -> str:
        """Upload a matrix; returns its id."""
        address = ("127.0.0.1", self._service.port)
        _, answer = store_matrix(address, "/v1/matrices", encode_npy(matrix))
        return str(json.loads(answer)["id"])


def find_split(shape: Shape) -> Case:
    """The case of a product that the link bounds."""
    return Case("split", "x".join(map(str, shape)), "float32", clients=1)


def _count_seconds(job: dict[str, Any]) -> float:
    """From a job's created_at to its finished_at."""
    begin, end = (datetime.fromisoformat(job[name]) for name in ("created_at", "finished_at"))
    return (end - begin).total_seconds()


def _describe(case: Case, baseline: str, turns: _Turns, floor: float, waiting: str) -> Row:
    plan, timings = turns.last.get("plan") or {}, turns.last.get("timings") or {}
    actual = timings.get("f_actual")
    return replace(
        summarize_turns(case, baseline, turns.seconds, floor),
        server_seconds=statistics.median(turns.server),
        f=plan.get("f"),
        f_actual=None if actual is None else int(actual),
        note=waiting,
    )
