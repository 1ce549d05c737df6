"""wavetrim beside NumPy, CuPy and PyTorch while the machine is busy, and whether it is slower.

Five products and some that are drawn at random, whose seed is the date, come in turns with one
another, from pageable memory and from page-locked memory. This contest judges: its exit status is
1 if wavetrim is slower than it may be, in any condition (`rows`), or if a peer is missing. Three
runs, each in processes of its own, into results/busy-<host>.json.

Run `make bench-host CONDITION=quiet|after-numpy|busy|half`, several with commas, or "all"; or
`python -m benchmarks.host.busy [--conditions all] [--seconds 560]`.

wavetrim's settings are those of a fresh machine without a calibration, unless WAVETRIM_DATA_DIR
names a folder. On a host with several GPUs the first one is used.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import Record
from benchmarks.common.shapes import read_shape
from benchmarks.host.busy.conditions import CONDITIONS, CannotMake, Condition, make_half_group
from benchmarks.host.busy.products import NAMED, RANDOM_PRODUCTS, draw_timely
from benchmarks.host.busy.rounds import Order
from benchmarks.host.busy.rows import (
    BusyResults,
    ConditionRow,
    compare_with_numpy,
    compare_with_peers,
    merge_runs,
)
from benchmarks.host.busy.tables import render_conditions
from benchmarks.host.suite import Product

SECONDS: Final = 560.0
ROUNDS: Final = 9
RUNS: Final = 3


class RunFailed(Exception):
    """A process that measures has failed; it has said why."""


def main() -> int:
    """Measure, write the results, and judge them."""
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    until = time.perf_counter() + arguments.seconds
    environment = describe_environment()
    made: dict[str, str] = {}
    load = os.getloadavg()[0]
    document = environment | {"seed": arguments.seed, "load_before": load, "conditions": made}
    record = Record(arguments.out / f"busy-{name_host(environment)}.json", document)
    try:
        with TemporaryDirectory(prefix="wavetrim-") as folder:
            os.environ.setdefault("WAVETRIM_DATA_DIR", folder)
            measure(arguments, record, made, until)
        record.write()
    except RunFailed as error:
        print(error, file=sys.stderr)
        return 1
    return judge(BusyResults(record.document, tuple(record.rows)), record.failed)


def measure(
    arguments: argparse.Namespace, record: Record, made: dict[str, str], until: float
) -> None:
    """Let processes measure, run after run."""
    hardware = record.document["hardware"]
    products = list_products(arguments, hardware)
    rows: list[ConditionRow] = []
    with ExitStack() as stack:
        prefixes = make_conditions(arguments.conditions, made, hardware, stack)
        for run in range(arguments.runs):
            if run and time.perf_counter() > until:
                record.leave_out(f"run {run + 1}", "too little time was left")
                break
            left = sum(map(len, prefixes)) * (arguments.runs - run)
            for conditions, prefix in prefixes.items():
                order = Order(
                    conditions=conditions,
                    products=[(*one.shape, one.dtype) for one in products],
                    seconds=(until - time.perf_counter()) * len(conditions) / left,
                    rounds=arguments.rounds,
                    seed=f"{arguments.seed} {run}",
                    checks=run == 0,
                )
                left -= len(conditions)
                answer = start(order, prefix)
                rows += [ConditionRow(**row) for row in answer["rows"]]
                record.failed += answer["wrong"]
                for name, why in answer["left_out"].items():
                    record.leave_out(name, why)
                products = [one for one in products if str(one) not in answer["left_out"]]
                record.rows = merge_runs(rows)
                record.write()
                tell_turns(run, conditions, answer["rows"])


def tell_turns(run: int, conditions: Sequence[Condition], rows: Sequence[dict[str, Any]]) -> None:
    """Print how many turns there were: fewer rounds where time was short, fewer for the slow."""
    for condition in conditions:
        turns = [row["turns"] for row in rows if row["condition"] == condition]
        print(
            f"run {run + 1}, {condition}: {min(turns, default=0)} to {max(turns, default=0)} turns",
            flush=True,
        )


def make_conditions(
    wanted: Sequence[Condition],
    made: dict[str, str],
    hardware: dict[str, Any],
    stack: ExitStack,
) -> dict[tuple[Condition, ...], tuple[str, ...]]:
    """The conditions of each process of a run, and the command before its own.

    A process that reads its number of cores must have half of them from its start.
    """
    others = tuple(one for one in wanted if one != "half")
    prefixes: dict[tuple[Condition, ...], tuple[str, ...]] = {others: ()} if others else {}
    made |= dict.fromkeys(others, "made")
    if "half" in wanted:
        try:
            prefixes[("half",)] = stack.enter_context(make_half_group(hardware["cores"]))
            made["half"] = "made"
        except CannotMake as error:
            made["half"] = f"cannot be made: {error}"
            print(f"half {made['half']}", flush=True)
    return prefixes


def start(order: Order, prefix: Sequence[str]) -> Any:
    """Let a process measure; its rows, and what it found wrong.

    Raises:
        RunFailed: It failed.
    """
    command = (*prefix, sys.executable, "-m", "benchmarks.host.busy.rounds")
    environment = {"CUDA_VISIBLE_DEVICES": "0"} | os.environ
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(order)) + "\n")
            process.stdin.flush()
            text = process.stdout.read()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise RunFailed(f"nothing is judged: a run ended with status {process.returncode}")
    return json.loads(text.splitlines()[-1])


def judge(results: BusyResults, wrong: Sequence[str]) -> int:
    """Print what was found; 1 if wavetrim is slower than it may be, or a product is wrong."""
    compared = compare_with_peers(results.rows, has_gpu=results.has_gpu)
    compared += compare_with_numpy(results.rows)
    lost = sorted((one for one in compared if one.is_lost), key=lambda one: one.excess)
    print(render_conditions(results))
    for line in wrong:
        print(f"wrong product: {line}", file=sys.stderr)
    for one in {one.ours.key: one for one in lost}.values():
        print(f"slower: {one}", file=sys.stderr)
    return 1 if lost or wrong else 0


def list_products(arguments: argparse.Namespace, hardware: dict[str, Any]) -> list[Product]:
    """What is measured."""
    if arguments.shapes:
        return [Product(shape, "float32") for shape in arguments.shapes]
    has_gpu = hardware["gpu"] is not None
    drawn = draw_timely(arguments.seed, arguments.random, cores=hardware["cores"], has_gpu=has_gpu)
    return [*NAMED, *drawn]


def read_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--conditions", type=read_conditions, default=CONDITIONS, metavar="LIST",
        help=f'of {", ".join(CONDITIONS)}; default: "all"')  # fmt: skip
    add("--seconds", type=float, default=SECONDS, help="what all of it may take")
    add("--runs", type=int, default=RUNS)
    add("--rounds", type=int, default=ROUNDS, help="in each run and condition, if there is time")
    today = datetime.now(UTC).date().isoformat()
    add("--seed", default=today, help="of the random products; default: the date")
    add("--random", type=int, default=RANDOM_PRODUCTS, help="how many of these there are")
    add("--shapes", type=read_shape, nargs="+", metavar="MxNxK", help="in place of all products")
    add("--out", type=Path, default=Path("benchmarks/results"), help="folder of results")
    return parser.parse_args()


def read_conditions(text: str) -> tuple[Condition, ...]:
    """The conditions of a list, in their usual order.

    Raises:
        ArgumentTypeError: One of them is unknown.
    """
    wanted = CONDITIONS if text == "all" else text.split(",")
    if unknown := set(wanted) - set(CONDITIONS):
        known = ", ".join(CONDITIONS)
        raise argparse.ArgumentTypeError(f"it is {', '.join(unknown)}; must be of {known}")
    return tuple(one for one in CONDITIONS if one in wanted)


if __name__ == "__main__":
    sys.exit(main())
