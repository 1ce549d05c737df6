"""Measures the service against its peers, in turns, and writes the results.

The peers are a few lines of FastAPI with NumPy, and if there is a GPU with CuPy. If one does not
run here, nothing is measured. Run `make bench-http ARGS="..."`, or `python -m benchmarks.http`.
Rows are written as soon as they are measured. It exits with 1 if an answer was wrong, or the
service failed.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import Record
from benchmarks.common.turns import Step, take_steps, take_turns
from benchmarks.http.baselines import CUPY, NUMPY, OURS, Baseline, Lease, Wire
from benchmarks.http.client import Load, Product, WrongAnswer
from benchmarks.http.rows import DTYPE, Case, summarize_rounds
from benchmarks.http.servers import start_peer, start_service
from wavetrim.client import ClientError

SECONDS: Final = 240.0
"""Time of all turns, without the servers' starts."""

SIZES: Final = (64, 256, 1024, 2048, 4096)
SIZES_ON_FEW_CORES: Final = (64, 256, 1024, 2048)
"""Sizes of products, with and without a GPU."""

CLIENTS: Final = (1, 16)
MOST_SIZE_OF_MANY: Final = 1024
"""Largest size with more than one client."""

ROUNDS: Final = 5
LEAST_ROUNDS: Final = 3
"""Turns of each baseline; fewer take place if they take longer than a case's time."""

MOST_PRODUCTS: Final = 4
"""Different products of a size that take turns, so that an answer sent again is detected."""

_SERVERS: Final = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools")


def main() -> int:
    """Measure, and write the results."""
    arguments = read_arguments()
    environment = describe_environment()
    environment["versions"] |= {name: version(name) for name in _SERVERS}
    has_gpu = environment["hardware"]["gpu"] is not None
    host = name_host(environment) if has_gpu else "cpu"
    record = Record(arguments.out / f"http-{host}.json", environment)
    try:
        with TemporaryDirectory(prefix="wavetrim-") as folder, ExitStack() as stack:
            baselines = start_all(Path(folder), stack, has_gpu=has_gpu)
            sizes = arguments.sizes or (SIZES if has_gpu else SIZES_ON_FEW_CORES)
            until = time.perf_counter() + arguments.seconds
            steps = [
                Step(str(case), weigh_case(case), partial(measure_case, case, baselines, record))
                for case in list_cases(sizes, arguments.clients)
            ]
            take_steps(steps, until, record)
    except (WrongAnswer, ClientError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def start_all(folder: Path, stack: ExitStack, *, has_gpu: bool) -> Sequence[Baseline]:
    """Start the service and its peers; returns all baselines. Without one nothing is compared."""
    service, unix = start_service(folder)
    stack.callback(service.stop)
    baselines: list[Baseline] = [Wire(OURS, service.address, "/v1/matmul"), Lease(unix)]
    for name in (NUMPY, CUPY) if has_gpu else (NUMPY,):
        peer = start_peer(name, folder)
        stack.callback(peer.stop)
        baselines.append(Wire(name, peer.address, "/matmul"))
    return baselines


def list_cases(sizes: Sequence[int], clients: Sequence[int]) -> Iterator[Case]:
    """The cases, those of small products first."""
    for size in sorted(sizes):
        for some in sorted(clients):
            if some == 1 or size <= MOST_SIZE_OF_MANY:
                yield Case(size, DTYPE, some)


def weigh_case(case: Case) -> float:
    """A case's weight when time is divided: 1 for a small one.

    A small case needs many requests, because a process is slow at first in its turn. A large case
    needs the time of its bytes, at 0.5 GB/s.
    """
    return 1.0 + case.clients * 3 * 8 * case.size**2 / 5e8


def measure_case(case: Case, baselines: Sequence[Baseline], record: Record, seconds: float) -> None:
    """Let baselines take turns at a case; the first product of each does not count."""
    until = time.perf_counter() + seconds
    products = [Product.draw(case.size, case.dtype, seed) for seed in range(MOST_PRODUCTS)]
    loads: dict[Baseline, list[Load]] = {
        one: [] for one in baselines if case.clients <= one.most_clients
    }
    share = seconds / (ROUNDS * len(loads))
    for baseline in loads:
        baseline.measure(products, 1, 0.0)
    for _, baseline in take_turns(loads, ROUNDS, least=LEAST_ROUNDS, until=until):
        loads[baseline].append(baseline.measure(products, case.clients, share))
    rows = [summarize_rounds(case, baseline.name, of) for baseline, of in loads.items()]
    record.add(rows)


def read_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seconds", type=float, default=SECONDS, help="what all turns together may take")
    add("--sizes", type=int, nargs="+", metavar="N", help=f"default: {SIZES}, without a GPU up to"
        f" {max(SIZES_ON_FEW_CORES)}")  # fmt: skip
    add("--clients", type=int, nargs="+", metavar="N", default=CLIENTS)
    add("--out", type=Path, default=Path("benchmarks/results"), help="folder of results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
