"""Jobs over HTTP beside the executor by itself: what the service adds to a product.

Run `python -m benchmarks.jobs [--profile FILE] [--seconds 70] [--shapes MxNxK ...]`. A service is
started, and the executor in a process of its own, with the same profile; where no file has one, the
machine is calibrated first. Both multiply the same matrices, turn by turn and never at the same
time: the one from files that were uploaded into a new file, the other in memory whose pages are
there. The executor has two runs a turn, one after a pause, as the job's, and one right behind it,
whose clocks and caches are warm. Figures are medians with their quartiles. It writes
benchmarks/results/jobs-<gpu>.json, anew after every product.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.environment import describe_environment, name_host
from benchmarks.executor_process import KERNELS, PROFILES, ExecutorFailed, ExecutorProcess
from benchmarks.kernels import read_shape
from benchmarks.measured import Shape
from benchmarks.operands import draw_operands
from wavetrim.client import Client, ClientError, JobStatus
from wavetrim.service.cli.exits import CommandFailed
from wavetrim.service.cli.local_service import run_service
from wavetrim.service.cli.machine import load_settings

SECONDS: Final = 70.0
SHAPES: Final = ((4096, 4096, 4096), (8192, 8192, 8192))
DTYPES: Final = ("float32", "float64")
LEAST_TURNS: Final = 3
MOST_TURNS: Final = 21

PAUSE_SECONDS: Final = 0.3
"""Before every turn: what the other one leaves behind, such as a spare file, is done by then."""

Samples = dict[str, list[float]]


def main() -> int:
    """Measure, and write the results."""
    arguments = read_arguments()
    environment = describe_environment()
    out: Path = arguments.out or Path(f"benchmarks/results/jobs-{name_host(environment)}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    try:
        with TemporaryDirectory(prefix="wavetrim-", dir=arguments.folder) as name:
            measure_all(Path(name), arguments, environment, rows, out)
    except (ExecutorFailed, CommandFailed, ClientError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def measure_all(
    folder: Path,
    arguments: argparse.Namespace,
    environment: dict[str, Any],
    rows: list[dict[str, Any]],
    out: Path,
) -> None:
    """Measure product after product; what was measured is written each time.

    Raises:
        ExecutorFailed: The executor's process has ended.
        CommandFailed: The service did not start.
        ClientError: A call to the service, or a job, failed.
    """
    with ExecutorProcess(folder, arguments.profile) as executor:
        document = {**environment, "profile": executor.profile, "rows": rows}
        settings = load_settings(profile_dir=folder / PROFILES, kernel_cache_dir=folder / KERNELS)
        home = folder / "service"
        home.mkdir()
        with run_service(home, settings) as client:
            until = time.perf_counter() + arguments.seconds
            todo = list(product(arguments.shapes, arguments.dtypes))
            for place, (shape, dtype) in enumerate(todo):
                share = share_time(until - time.perf_counter(), todo[place:])
                rows.append(
                    measure_product(client, executor, shape, dtype, time.perf_counter() + share)
                )
                print(describe_row(rows[-1]), flush=True)
                # Anew after every row, so a run that is cut short leaves what it had.
                out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def share_time(seconds: float, todo: Sequence[tuple[Shape, str]]) -> float:
    """What the first of some products may take: by its bytes, which are uploaded and stored."""
    sizes = [count_bytes(shape, dtype) for shape, dtype in todo]
    return max(0.0, seconds) * sizes[0] / sum(sizes)


def count_bytes(shape: Shape, dtype: str) -> float:
    """Bytes of A, B and C, and as many as 0.2 s of turns are worth."""
    m, n, k = shape
    return (m * k + k * n + m * n) * (8 if dtype == "float64" else 4) + 2e8


def measure_product(
    client: Client, executor: ExecutorProcess, shape: Shape, dtype: str, until: float
) -> dict[str, Any]:
    """One row: upload, one product each that does not count, then turns.

    Raises:
        ExecutorFailed: The executor's process has ended.
        ClientError: A call to the service, or a job, failed, or its product is wrong.
    """
    m, n, k = shape
    operands = draw_operands(shape, dtype)
    stored = [client.put(matrix).id for matrix in (operands.a, operands.b)]
    del operands
    try:
        plan = run_job(client, stored, verify=True).plan or {}
        executor.run(m=m, n=n, k=k, dtype=dtype)
        pair = Pair(client, executor, stored)
        turns = take_turns([pair.time_job, pair.time_executor], until)
    finally:
        for matrix in stored:
            client.delete(matrix)
    row: dict[str, Any] = {"m": m, "n": n, "k": k, "dtype": dtype, "turns": turns}
    return row | {name: plan.get(name) for name in ("kernel", "f")} | summarize(pair.samples)


class Pair:
    """A product as a job, and by the executor, and their figures so far.

    Args:
        client: Of the service.
        executor: Has computed this product before.
        stored: The ids of A and B.
    """

    def __init__(self, client: Client, executor: ExecutorProcess, stored: Sequence[str]) -> None:
        self._client = client
        self._executor = executor
        self._stored = stored
        self.samples: Samples = {}

    def time_job(self) -> None:
        """A job's turn."""
        began = time.perf_counter()
        job = run_job(self._client, self._stored)
        timings = job.timings or {}
        self._note("wall_seconds", time.perf_counter() - began)
        self._note("map_seconds", timings["map_seconds"])
        self._note("job_total_seconds", timings["total_seconds"])
        self._note("f_actual", timings["f_actual"])
        assert job.result is not None, "a job that has succeeded has a result"
        self._client.delete(job.result)

    def time_executor(self) -> None:
        """The executor's turn: after a pause, as the job's, and once more right behind it."""
        timings = self._executor.run()
        self._note("executor_total_seconds", timings["total_seconds"])
        self._note("executor_f_actual", timings["f_actual"])
        self._note("executor_again_seconds", self._executor.run()["total_seconds"])

    def _note(self, name: str, value: float) -> None:
        self.samples.setdefault(name, []).append(value)


def run_job(client: Client, stored: Sequence[str], *, verify: bool = False) -> JobStatus:
    """Post the product, and wait for it.

    Raises:
        ClientError: It did not succeed.
    """
    a, b = stored
    return client.submit(a, b, verify=verify).wait()


def take_turns(sides: Sequence[Callable[[], None]], until: float) -> int:
    """Let both sides run in turns, the other one first each time; returns how many turns."""
    for turn in range(MOST_TURNS):
        if turn >= LEAST_TURNS and time.perf_counter() > until:
            return turn
        for side in sides if turn % 2 == 0 else reversed(sides):
            time.sleep(PAUSE_SECONDS)
            side()
    return MOST_TURNS


def summarize(samples: Samples) -> dict[str, Any]:
    """Medians, quartiles of what is in seconds, and the job's over the executor's."""
    row: dict[str, Any] = {}
    for name, values in samples.items():
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        row[name] = median
        if name.endswith("_seconds"):
            row[f"{name.removesuffix('_seconds')}_quartiles_seconds"] = [low, high]
    row["ratio"] = row["job_total_seconds"] / row["executor_total_seconds"]
    row["ratio_again"] = row["job_total_seconds"] / row["executor_again_seconds"]
    return row


def describe_row(row: dict[str, Any]) -> str:
    """A line about a product."""
    figures = ", ".join(
        f"{words} {row[f'{name}_seconds'] * 1e3:.2f} ms"
        for words, name in (
            ("job", "job_total"),
            ("executor", "executor_total"),
            ("right behind", "executor_again"),
            ("mapping", "map"),
            ("from submit to done", "wall"),
        )
    )
    where = f"{row['m']}x{row['n']}x{row['k']} {row['dtype']}"
    f = f"F {row['f']} → {row['f_actual']:.0f}"
    return f"{where}: {figures}, ratio {row['ratio']:.3f}, {f}, {row['turns']} turns"


def read_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--seconds", type=float, default=SECONDS, help="what all turns together may take")
    add("--shapes", type=read_shape, nargs="+", default=SHAPES, metavar="MxNxK")
    add("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    add("--profile", type=Path, help="a profile, or a results file that has one")
    add("--folder", type=Path, help="where the service keeps its files; default: as TMPDIR says")
    add("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
