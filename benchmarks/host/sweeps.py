"""Sweeps of F at many products, on one calibrated machine."""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common.environment import describe_environment, name_host
from benchmarks.common.operands import draw_operands
from benchmarks.common.results import Record
from benchmarks.common.shapes import name_shape
from benchmarks.common.steps import Step, take_steps
from benchmarks.host.products import (
    RANDOM_SWEEPS,
    SWEPT_SHAPES,
    Product,
    draw_products,
    list_sweeps,
)
from benchmarks.host.results import SweepRow
from benchmarks.host.sweep import Sweep, estimate_sweep_seconds
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.calibration.calibrate import calibrate
from wavetrim.scheduler.calibration.gpus import calibrate_gpus
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile


def run_sweeps(arguments: argparse.Namespace) -> None:
    """Calibrate, sweep, and write the results.

    Raises:
        OSError: There is no GPU.
    """
    until = time.perf_counter() + arguments.seconds
    devices = list_devices()[: arguments.gpus]
    if not devices:
        raise OSError("there is no GPU, so there is no F to sweep")
    drawn = [] if arguments.shapes else draw_products(arguments.seed, RANDOM_SWEEPS)
    products = list_sweeps(arguments.shapes or SWEPT_SHAPES, drawn)
    environment = describe_environment()
    several = f"x{len(devices)}" if len(devices) > 1 else ""
    out: Path = arguments.out / f"host-{name_host(environment)}{several}-sweeps.json"
    with (
        TemporaryDirectory(prefix="wavetrim-") as folder,
        Executor(cache_dir=Path(folder), devices=devices) as executor,
    ):
        profile = measure_profile(executor, Path(folder))
        document = {"gpus": len(devices), "seed": arguments.seed, "profile": profile.as_dict()}
        record = Record(out, environment | document)
        measure_sweeps(executor, profile, products, record, until)
        record.write()
    print(f"written to {out}", flush=True)


def measure_profile(executor: Executor, cache_dir: Path) -> MachineProfile:
    """The machine's profile, measured now."""
    if len(executor.devices) > 1:
        return calibrate_gpus(
            lambda devices: Executor(cache_dir=cache_dir, devices=devices),
            executor.devices,
            cache_dir=cache_dir,
        )
    return calibrate(executor, cache_dir=cache_dir, directory=None)


def measure_sweeps(
    executor: Executor,
    profile: MachineProfile,
    products: Sequence[tuple[Product, int | None]],
    record: Record,
    until: float,
) -> None:
    """Sweep F at products, the GPU held to some multiprocessors (None for all), into a record."""
    regret: list[SweepRow] = record.document.setdefault("regret", [])

    def sweep(product: Product, sms: int | None, seconds: float) -> None:
        operands = draw_operands(product.shape, product.dtype)
        row = Sweep(executor, profile, operands.problem, sms).measure(operands, seconds)
        regret.append(row)
        print(describe_sweep(row), flush=True)

    steps: list[Step] = []
    for product, sms in products:
        problem = GemmProblem(*product.shape, product.dtype)
        plan = choose_plan(problem, profile, PlanOptions(sms=sms))
        seconds = estimate_sweep_seconds(plan.predicted.total_seconds)
        name = f"F at {product}, {'all' if sms is None else sms} multiprocessors"
        if seconds == 0:
            record.leave_out(name, "too long to sweep")
        else:
            seconds += product.size_bytes / 2e9  # to draw the operands
            steps.append(Step(name, seconds, partial(sweep, product, sms)))
    take_steps(steps, until, record)


def describe_sweep(row: SweepRow) -> str:
    """A line about a sweep."""
    predicted, measured = row.predicted_seconds["total"], row.measured_seconds["total"]
    return (
        f"F at {name_shape(row.shape)} {row.dtype} {row.sms}: {row.f}, best {row.best_f}, regret "
        f"{row.regret:.3f}; predicted {predicted * 1e3:.3f} ms, measured {measured * 1e3:.3f} ms, "
        f"{len(row.curve)} points"
    )
