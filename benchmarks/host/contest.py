"""The contest: processes that measure in each condition, run after run, and all their rows."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.results import Record
from benchmarks.common.shapes import Product, Shape
from benchmarks.host.conditions import CannotMake, Condition, make_half_group
from benchmarks.host.pages import render_times
from benchmarks.host.products import NAMED, RANDOM_PRODUCTS, draw_timely
from benchmarks.host.results import HostResults, HostRow, merge_runs
from benchmarks.host.rounds import Order


def run_contest(arguments: argparse.Namespace) -> Sequence[str]:
    """Measure, write the results, print their table, and return what was wrong."""
    until = time.perf_counter() + arguments.seconds
    environment = describe_environment()
    gpus = arguments.gpus if environment["hardware"]["gpu"] else 0
    several = f"x{gpus}" if gpus > 1 else ""
    document = environment | {
        "gpus": gpus,
        "seed": arguments.seed,
        "conditions": {},
    }
    out = arguments.out / f"busy-{name_host(environment)}{several}.json"
    record = Record(out, document)
    with TemporaryDirectory(prefix="wavetrim-") as folder:
        os.environ.setdefault("WAVETRIM_DATA_DIR", folder)
        _measure(arguments, record, until)
    record.write()
    print(render_times([HostResults(record.document, tuple(record.rows))]))
    print(f"written to {out}", flush=True)
    return record.failed


def _measure(arguments: argparse.Namespace, record: Record, until: float) -> None:
    """Let processes measure, run after run."""
    document, rows = record.document, list[HostRow]()
    products = list_products(arguments, document["hardware"]["cores"], document["gpus"])
    with ExitStack() as stack:
        prefixes = _make_conditions(arguments.conditions, document, stack)
        for run in range(arguments.runs):
            if run and time.perf_counter() > until:
                record.leave_out(f"run {run + 1}", "too little time was left")
                break
            left = sum(map(len, prefixes)) * (arguments.runs - run)
            for conditions, prefix in prefixes.items():
                order = Order(
                    conditions=conditions,
                    products=[(*one.shape, one.dtype) for one in products],
                    gpus=document["gpus"],
                    seconds=(until - time.perf_counter()) * len(conditions) / left,
                    rounds=arguments.rounds,
                    seed=f"{arguments.seed} {run}",
                    checks=run == 0,
                )
                left -= len(conditions)
                answer = _start(order, prefix)
                rows += [HostRow(**row) for row in answer["rows"]]
                record.failed += answer["wrong"]
                for name, why in answer["left_out"].items():
                    record.leave_out(name, why)
                products = [one for one in products if one.name not in answer["left_out"]]
                record.rows = merge_runs(rows)
                record.write()
                print(f"run {run + 1}, {', '.join(conditions)}: done", flush=True)


def _make_conditions(
    wanted: Sequence[Condition], document: dict[str, Any], stack: ExitStack
) -> dict[tuple[Condition, ...], tuple[str, ...]]:
    """The conditions of each process of a run, and the command before its own.

    "half" has a process of its own, in its control group from the start, because a process reads
    its number of cores once. The document says which conditions could be made.
    """
    made: dict[str, str] = document["conditions"]
    others = tuple(one for one in wanted if one != "half")
    prefixes: dict[tuple[Condition, ...], tuple[str, ...]] = {others: ()} if others else {}
    made |= dict.fromkeys(others, "made")
    if "half" in wanted:
        try:
            group = make_half_group(document["hardware"]["cores"])
            prefixes[("half",)] = stack.enter_context(group)
            made["half"] = "made"
        except CannotMake as error:
            made["half"] = f"cannot be made: {error}"
            print(f"half {made['half']}", flush=True)
    return prefixes


def _start(order: Order, prefix: Sequence[str]) -> Any:
    """Let a process measure that sees only the GPUs that it uses; its rows, and what was wrong."""
    command = (*prefix, sys.executable, "-m", "benchmarks.host.rounds")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(order.gpus)))
    gpus = {"CUDA_VISIBLE_DEVICES": ",".join(visible.split(",")[: order.gpus])}
    run = subprocess.run(
        command, input=json.dumps(asdict(order)), stdout=subprocess.PIPE, text=True,
        env=os.environ | gpus, check=True,
    )  # fmt: skip
    return json.loads(run.stdout.splitlines()[-1])


def list_products(arguments: argparse.Namespace, cores: int, gpus: int) -> list[Product]:
    """What is measured."""
    if arguments.shapes:
        shapes: Sequence[Shape] = arguments.shapes
        return [Product(*shape, "float32") for shape in shapes]
    drawn = draw_timely(arguments.seed, RANDOM_PRODUCTS, cores=cores, has_gpu=gpus > 0)
    return [*NAMED, *drawn]
