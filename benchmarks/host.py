"""This product beside others, from host memory back into host memory, turn by turn in one run.

All contenders multiply the same arrays, pageable ones and page-locked ones; each has its product
checked. The limit that they are held against is that of the GPU alone, at the rates that cuBLAS and
the link reach in the same run. Then, for every product and several budgets of multiprocessors, F is
swept, and the time at the model's F stands over the best one: its regret.

Run `make bench-host`, or `python -m benchmarks.host [--seconds 1100] [--parts rows held regret]
[--shapes MxNxK ...] [--contenders NAME ...]`. It writes benchmarks/results/host-<gpu>.json, anew
after every product, so a run that is cut short leaves what it had.

With `--keep` a run adds to what earlier ones wrote on the same hardware, beside the same versions.
What it measures anew replaces the older contest, or sweep, whole, with all its contenders, also
those that do not take part now. Other rows stay, each with its commit. If the file's commit is the
one at hand, its profile is used, else the machine is calibrated anew.
`python -m benchmarks.host_merge` does the same with two files.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.contenders.field import NAMES, make_contenders
from benchmarks.environment import describe_environment, name_host
from benchmarks.host_bench import HostBench
from benchmarks.host_results import HostRecord
from benchmarks.host_rows import HostResults
from benchmarks.host_suite import ALL_SHAPES
from benchmarks.kernels import read_shape
from benchmarks.limit import measure_link
from benchmarks.measured import ResultsError
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.calibrate import calibrate
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.problem import MEMORIES

SECONDS: Final = 1100.0
PARTS: Final = ("rows", "held", "regret")


def main() -> int:
    """Measure, and write the results."""
    started = time.perf_counter()
    arguments = read_arguments()
    environment = describe_environment()
    out: Path = arguments.out or Path(f"benchmarks/results/host-{name_host(environment)}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="wavetrim-") as folder:
        cache_dir = Path(folder)
        with Executor(cache_dir=cache_dir, devices=list_devices()) as executor:
            record = HostRecord(out, environment)
            try:
                known = record.keep(HostResults.read(out)) if arguments.keep else None
                profile = find_profile(executor, cache_dir, arguments.profile, known)
            except (ResultsError, ProfileError, OSError) as error:
                print(error, file=sys.stderr)
                return 1
            link = measure_link(executor.devices[0].index) if executor.devices else None
            record.describe(profile=profile.as_dict(), link=asdict(link) if link else None)
            contenders = (
                make_contenders(executor, profile, arguments.contenders, record.leave_out)
                if "rows" in arguments.parts
                else []
            )
            bench = HostBench(
                executor,
                profile,
                contenders,
                link=link,
                cache_dir=cache_dir,
                record=record,
                until=started + arguments.seconds,
            )
            run_parts(bench, arguments, has_gpu=bool(executor.devices))
            record.write()
    print(f"written to {out} after {time.perf_counter() - started:.0f} s")
    for wrong in record.wrong:
        print(f"wrong product: {wrong}", file=sys.stderr)
    return 1 if record.wrong else 0


def run_parts(bench: HostBench, arguments: argparse.Namespace, *, has_gpu: bool) -> None:
    """The wished parts; without a GPU there is nothing to hold and no F to choose."""
    if "rows" in arguments.parts:
        bench.compare(arguments.shapes, arguments.memories)
    if "held" in arguments.parts and has_gpu:
        bench.hold(arguments.shapes)
    if "regret" in arguments.parts and has_gpu:
        bench.sweep(arguments.shapes)


def find_profile(
    executor: Executor, cache_dir: Path, file: Path | None, known: Mapping[str, Any] | None
) -> MachineProfile:
    """The profile of a file, of an earlier run, or measured now.

    Args:
        executor: Is calibrated.
        cache_dir: Folder of compiled kernels.
        file: A profile, or a results file that has one.
        known: The profile of an earlier run of this commit.

    Raises:
        ProfileError: What is there is no profile.
        OSError: The file cannot be read.
    """
    if file is not None:
        try:
            document: Any = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ProfileError(f"{file} is not JSON: {error}") from error
        return MachineProfile.from_dict(document.get("profile", document))
    if known is not None:
        return MachineProfile.from_dict(known)
    began = time.perf_counter()
    profile = calibrate(executor, cache_dir=cache_dir, directory=None)
    print(f"calibrated in {time.perf_counter() - began:.0f} s", flush=True)
    return profile


def read_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seconds", type=float, default=SECONDS, help="what the whole run may take")
    add("--parts", nargs="+", choices=PARTS, default=PARTS)
    add("--shapes", type=read_shape, nargs="+", default=ALL_SHAPES, metavar="MxNxK")
    add("--contenders", nargs="+", choices=NAMES, default=NAMES)
    add("--memories", nargs="+", choices=MEMORIES, default=MEMORIES)
    add("--profile", type=Path, help="a profile, or a results file that has one")
    add("--keep", action="store_true", help="add to what earlier runs wrote")
    add("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
