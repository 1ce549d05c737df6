"""Sweeps of F at many products, on one calibrated machine."""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.operands import draw_operands, pin_operands
from benchmarks.common.results import Record
from benchmarks.common.shapes import DTYPES, Product, Shape
from benchmarks.common.turns import Step, take_steps
from benchmarks.host.products import (
    RANDOM_SHARED,
    RANDOM_SWEEPS,
    SHORT_PRODUCTS,
    SWEPT_SHAPES,
    Swept,
    draw_products,
    draw_timely,
    list_pinned_sweeps,
    list_sweeps,
)
from benchmarks.host.results import SweepRow
from benchmarks.host.rounds import BEFORE_SIDE, PAUSE_SECONDS
from benchmarks.host.sweep import Sweep, estimate_sweep_seconds
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.calibration.calibrate import calibrate_gpus
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import dump_profile


def run_sweeps(arguments: argparse.Namespace, memory: Memory) -> None:
    """Calibrate, sweep products in one kind of memory, and write the results."""
    until = time.perf_counter() + arguments.seconds
    devices = list_devices()[: arguments.gpus]
    if not devices:
        raise OSError("there is no GPU, so there is no F to sweep")
    environment = describe_environment()
    several = f"x{len(devices)}" if len(devices) > 1 else ""
    kind = "pinned-sweeps" if memory == "pinned" else "sweeps"
    out: Path = arguments.out / f"host-{name_host(environment)}{several}-{kind}.json"
    with (
        TemporaryDirectory(prefix="wavetrim-") as folder,
        Executor(cache_dir=Path(folder), devices=devices) as executor,
    ):
        profile = calibrate_gpus(
            lambda some: Executor(cache_dir=Path(folder), devices=some),
            devices,
            cache_dir=Path(folder),
        )
        document = {"gpus": len(devices), "seed": arguments.seed, "profile": dump_profile(profile)}
        record = Record(out, environment | document)
        measure_sweeps(executor, profile, _list_swept(arguments, memory), record, until)
        record.write()
    print(f"written to {out}", flush=True)


def _list_swept(arguments: argparse.Namespace, memory: Memory) -> list[Swept]:
    shapes: Sequence[Shape] | None = arguments.shapes
    if memory == "pageable":
        drawn = [] if shapes else draw_products(arguments.seed, RANDOM_SWEEPS)
        return list_sweeps(shapes or SWEPT_SHAPES, drawn)
    if shapes:
        return list_pinned_sweeps([Product(*shape, dtype) for shape in shapes for dtype in DTYPES])
    drawn = draw_timely(arguments.seed, RANDOM_SHARED, cores=usable_cores(), has_gpu=True)
    return list_pinned_sweeps([*SHORT_PRODUCTS, *drawn])


def measure_sweeps(
    executor: Executor,
    profile: MachineProfile,
    products: Sequence[Swept],
    record: Record,
    until: float,
) -> None:
    """Sweep F at products, into a record."""
    side = np.ones((BEFORE_SIDE, BEFORE_SIDE), np.float32)
    regret: list[SweepRow] = record.document.setdefault("regret", [])

    def sweep(one: Swept, seconds: float) -> None:
        operands = draw_operands(one.product.shape, one.product.dtype)
        if one.memory == "pinned":
            operands = pin_operands(operands)
        before = partial(np.matmul, side, side) if one.condition == "after-numpy" else None
        sweep = Sweep(executor, profile, operands.problem, sms=one.sms, before=before)
        time.sleep(PAUSE_SECONDS)
        row = sweep.measure(operands, one.condition, seconds)
        regret.append(row)
        print(describe_sweep(row), flush=True)

    steps: list[Step] = []
    for one in products:
        problem = GemmProblem(*one.product.shape, one.product.dtype, one.memory)
        plan = choose_plan(problem, profile, PlanOptions(sms=one.sms))
        seconds = estimate_sweep_seconds(plan.predicted.total_seconds)
        if seconds == 0:
            record.leave_out(str(one), "too long to sweep")
        else:
            seconds += one.product.size_bytes / 2e9  # to draw the operands
            steps.append(Step(str(one), seconds, partial(sweep, one)))
    take_steps(steps, until, record)


def describe_sweep(row: SweepRow) -> str:
    """A line about a sweep."""
    predicted, measured = row.predicted_seconds["total"], row.measured_seconds["total"]
    return (
        f"F at {row.name} {row.sms} {row.condition}: {row.f}, "
        f"best {row.best_f}, regret {row.regret:.3f}; predicted {predicted * 1e3:.3f} ms, "
        f"measured {measured * 1e3:.3f} ms, {len(row.curve)} points"
    )
