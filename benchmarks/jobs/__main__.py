"""Measures jobs over HTTP at this checkout's service, and writes the results.

With `--baseline`, the service of another checkout takes the same trace in turns with it. Run
`make bench-jobs ARGS="..."`, or `python -m benchmarks.jobs`. It exits with 1 if a job failed.
"""

import argparse
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import Record
from benchmarks.common.tables import RESULTS, ROOT
from benchmarks.jobs.scenes import Scenes
from benchmarks.jobs.service import Service
from benchmarks.jobs.trace import SIZES, SIZES_ON_FEW_CORES
from wavetrim.client import ClientError

JOBS: Final = 400
REPEATS: Final = 1600
"""Jobs of a trace, and of a rate."""

FLOOD_SIZE: Final = 4096
FLOOD_SIZE_ON_FEW_CORES: Final = 512


def main() -> int:
    """Measure, and write the results."""
    arguments = read_arguments()
    environment = describe_environment()
    has_gpu = environment["hardware"]["gpu"] is not None
    document = environment | {"seed": arguments.seed}
    record = Record(arguments.out / f"jobs-{name_host(environment)}.json", document)
    sizes = arguments.sizes or (SIZES if has_gpu else SIZES_ON_FEW_CORES)
    try:
        with TemporaryDirectory(prefix="wavetrim-") as folder, ExitStack() as stack:
            services = []
            for policy, checkout in list_checkouts(arguments, environment["commit"]):
                services.append(Service.start(policy, checkout, Path(folder) / policy))
                stack.callback(services[-1].stop)
            scenes = Scenes(
                services,
                arguments.seed,
                sizes,
                jobs=arguments.jobs,
                flood_size=min(max(sizes), FLOOD_SIZE if has_gpu else FLOOD_SIZE_ON_FEW_CORES),
                repeats=arguments.repeats,
            )
            for rows in scenes.measure():
                record.add(rows)
    except (ClientError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def list_checkouts(arguments: argparse.Namespace, commit: str) -> list[tuple[str, Path]]:
    """The checkouts whose services are measured, by their names: this one's, and the baseline's."""
    checkouts = [(arguments.name or commit, ROOT)]
    if arguments.baseline is not None:
        checkout = arguments.baseline.resolve()
        command = ("git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD")
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        checkouts.append((found.stdout.strip() or checkout.name, checkout))
    return checkouts


def read_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--baseline", type=Path, metavar="PATH", help="another checkout, with its environment")
    add("--name", help="name of this checkout in the results; default: its commit")
    add("--jobs", type=int, default=JOBS, metavar="N", help="jobs of the trace")
    add("--repeats", type=int, default=REPEATS, metavar="N", help="jobs for each rate")
    add("--sizes", type=int, nargs="+", metavar="N", help="default: as the machine")
    add("--seed", default=datetime.now(UTC).date().isoformat(), help="default: the date")
    add("--out", type=Path, default=RESULTS, help="folder of results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
