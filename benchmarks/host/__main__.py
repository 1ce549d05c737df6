"""wavetrim against other libraries, from host memory into host memory, turn by turn in one run.

Two parts, each with a file of its own, which is written again after every product:

- `contests`, into results/host-<gpu>.json: all baselines multiply the same arrays, pageable ones
  and page-locked ones, and each has its product checked. First the small products and those drawn
  at random, whose seed is the date, then the suite.
- `sweeps`, into results/host-<gpu>-sweeps.json: the time at the model's F over that at the best F
  (regret), and over that of each device alone.

Run `make bench-host`, or `python -m benchmarks.host [--parts contests sweeps] [--seconds 560]`. The
seconds are those of each part; what did not fit is listed in its file. The second part can run by
itself, with the profile of the first: `--parts sweeps --profile FILE`, and the same `--seed`.

Baselines take turns at one product after the other, which flatters whatever is kept for a product.
`benchmarks.host.busy` (`make bench-host CONDITION=all`) lets products take turns, too, on a machine
that is quiet or busy, and judges.

On several GPUs (`make bench-host GPUS=2`, or `--devices 0,1`) wavetrim, the same held to fewer of
them, cublasXt and CuPy take turns, into results/host-<gpu>x<n>.json. Before that, products that
wait together are computed on one GPU, on two and so on.
"""

import argparse
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.profile import make_profile
from benchmarks.common.results import Record
from benchmarks.common.shapes import read_shape
from benchmarks.host.baselines.lineup import NAMES, SEVERAL_NAMES, list_names
from benchmarks.host.bench import HostBench
from benchmarks.host.judged import describe_judgements
from benchmarks.host.limit import measure_links
from benchmarks.host.suite import (
    ALL_SHAPES,
    RANDOM_SHAPES,
    draw_products,
    list_small,
    list_suite,
    list_sweeps,
)
from wavetrim.kernels.device import DeviceInfo, list_devices, select_devices
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.problem import MEMORIES

SECONDS: Final = 560.0
FILES: Final = {"contests": "host-{}.json", "sweeps": "host-{}-sweeps.json"}
"""The parts, and the file of each."""


def main() -> int:
    """Measure, and write the results."""
    started = time.perf_counter()
    arguments = read_arguments()
    wrong: list[str] = []
    with (
        TemporaryDirectory(prefix="wavetrim-") as folder,
        Executor(cache_dir=Path(folder), devices=arguments.devices) as executor,
    ):
        try:
            profile = make_profile(executor, Path(folder), arguments.profile)
        except (ProfileError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        indices = [device.index for device in executor.devices]
        link = measure_links(indices) if indices else None
        environment = describe_environment() | {
            "gpus": len(indices),
            "seed": arguments.seed,
            "link": asdict(link) if link else None,
            "profile": profile.as_dict(),
        }
        for part in arguments.parts:
            name = name_host(environment) + (f"x{len(indices)}" if len(indices) > 1 else "")
            out = arguments.out / FILES[part].format(name)
            record = Record(out, environment)
            until, here = started + arguments.seconds, Path(folder)
            bench = HostBench(
                executor, profile, link=link, cache_dir=here, record=record, until=until
            )
            measure_part(part, bench, arguments)
            record.write()
            wrong += record.failed
            print(f"written to {out} after {time.perf_counter() - started:.0f} s", flush=True)
            print(describe_judgements(out), flush=True)
            started = time.perf_counter()
    for one in wrong:
        print(f"wrong product: {one}", file=sys.stderr)
    return 1 if wrong else 0


def measure_part(part: str, bench: HostBench, arguments: argparse.Namespace) -> None:
    """Measure all that one file holds, by importance."""
    suite = list_suite(arguments.shapes)
    drawn = draw_products(arguments.seed, arguments.random)
    if part == "sweeps":
        bench.sweep(list_sweeps(suite, drawn))
        return
    small = list_small() if arguments.shapes == ALL_SHAPES else []
    bench.measure_throughput()
    bench.compare([*small, *drawn, *suite], arguments.baselines, arguments.memories)


def read_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--seconds", type=float, default=SECONDS, help="what each part may take")
    add("--parts", nargs="+", choices=FILES, help="default: all; on several GPUs, contests")
    add("--devices", type=read_devices, default=list_devices()[:1], metavar="LIST",
        help='GPUs, such as "0,1"; default: the first')  # fmt: skip
    today = datetime.now(UTC).date().isoformat()
    add("--seed", default=today, help="of the random products; default: the date")
    add("--random", type=int, default=RANDOM_SHAPES, help="how many of these there are")
    add("--shapes", type=read_shape, nargs="+", default=ALL_SHAPES, metavar="MxNxK",
        help="in place of the suite and the small products")  # fmt: skip
    add("--baselines", nargs="+", choices=[*dict.fromkeys((*NAMES, *SEVERAL_NAMES))])
    add("--memories", nargs="+", choices=MEMORIES, default=MEMORIES)
    add("--profile", type=Path, help="a profile, or a results file that has one")
    add("--out", type=Path, default=Path("benchmarks/results"), help="folder of results")
    arguments = parser.parse_args()
    several = len(arguments.devices) > 1
    arguments.parts = arguments.parts or (["contests"] if several else list(FILES))
    arguments.baselines = arguments.baselines or list_names(len(arguments.devices))
    return arguments


def read_devices(text: str) -> tuple[DeviceInfo, ...]:
    """The GPUs of a list of indices; one that comes twice is used as two.

    Raises:
        ArgumentTypeError: One of them does not exist.
    """
    devices = select_devices(text)
    if len(devices) < len(text.split(",")):
        here = len(list_devices())
        raise argparse.ArgumentTypeError(f"it is {text}; this machine has {here} GPUs")
    return devices


if __name__ == "__main__":
    sys.exit(main())
