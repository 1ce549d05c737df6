"""How many wrong products pass their check, how many right ones fail, and how long it takes.

Run `python -m benchmarks.verify`; no GPU is needed. It writes benchmarks/results/verify.json: 100
tries for every element type and kind of damage, in products of sizes 64 to 2048 of normal, uniform
and log-normal elements; 10,000 right products with infinities, NaNs and extremes; and a product's
time with and without its check. `render_verify` makes the sentences in docs/api.md.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.common.environment import describe_environment
from benchmarks.common.results import write_document
from benchmarks.common.tables import RESULTS
from tests.scheduler.check.damage import (
    DAMAGES,
    DISTRIBUTIONS,
    LARGE,
    TYPES,
    damage,
    draw_product,
    draw_special,
    measure_error,
)
from wavetrim.cpu.threads import limit_blas_threads, usable_cores
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.transfer.pinned import pin_array
from wavetrim.scheduler.check.checked import compute_checked
from wavetrim.scheduler.check.verify import verify_product
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.product import EngineProduct
from wavetrim.scheduler.profile.store import find_profile

SEED: Final = 15
TRIES: Final = 100
RIGHT: Final = 10_000
SIZES: Final = (64, 200, 512, 2048)
LARGE_ONES: Final = 20
"""One of this number of right products has sides of up to 1000, the others of up to 48."""

TIMED: Final = (4096, 8192)
TURNS: Final = 7


def count_missed(dtype: str, tries: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of damage: tries, and how many of them passed."""
    random = np.random.default_rng(SEED)
    # Integers have one distribution, over their whole range.
    names = DISTRIBUTIONS if np.dtype(dtype).kind == "f" else DISTRIBUTIONS[:1]
    sizes = [(size, name) for size in SIZES for name in names]
    products = [draw_product(random, size, dtype, name) for size, name in sizes]
    errors = [measure_error(product, random) for product in products]
    for name in DAMAGES:
        done = missed = drawn = 0
        while done < tries:
            index = drawn % len(products)
            drawn += 1
            product = products[index]
            out = damage(product, name, errors[index], random)
            if out is not None:
                done += 1
                missed += verify_product(product.a, product.b, None, out).passed
        yield {"type": dtype, "change": name, "tries": done, "missed": missed}


def count_false_alarms(dtype: str, count: int) -> dict[str, Any]:
    """How many right products of a type fail."""
    random = np.random.default_rng(SEED)
    alarms = 0
    for index in range(count):
        product = draw_special(random, dtype, 1000 if index % LARGE_ONES == 0 else 48)
        alarms += not verify_product(
            product.a, product.b, product.c, product.out, alpha=product.alpha, beta=product.beta
        ).passed
    return {"type": dtype, "change": None, "tries": count, "false_alarms": alarms}


def count_type(dtype: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of damaged and of right products for a type."""
    return list(count_missed(dtype, TRIES)), count_false_alarms(dtype, -(-RIGHT // len(TYPES)))


def measure_cost(executor: Executor, dtype: str, size: int) -> dict[str, Any]:
    """Median seconds of a large product without and with its check, in turns, by its plan.

    Operands are page-locked if there is a GPU.
    """
    random = np.random.default_rng(SEED)
    has_gpu = bool(executor.devices)
    a, b, out = ((pin_array if has_gpu else np.empty)((size, size), dtype) for _ in range(3))
    for matrix in (a, b):
        matrix[...] = random.standard_normal((size, size))
    profile = find_profile(
        None, devices=executor.devices, directory=None, cpu_threads=executor.pool.threads
    )
    memory: Memory = "pinned" if has_gpu else "pageable"
    plan = choose_plan(GemmProblem(size, size, size, dtype, memory), profile)
    seconds: list[list[float]] = [[], []]
    for _ in range(TURNS):
        start = time.perf_counter()
        executor.run(plan, a, b, out)
        middle = time.perf_counter()
        product = EngineProduct(a, b, None, out, 1.0, 0.0)
        compute_checked(product, plan, executor, choose_gpu_plan=None)
        seconds[0].append(middle - start)
        seconds[1].append(time.perf_counter() - middle)
    alone, checked = map(statistics.median, seconds)
    return {
        "type": dtype,
        "size": size,
        "gpu_rows": plan.gpu_rows,
        "product_seconds": alone,
        "checked_seconds": checked,
        "share": checked / alone - 1,
    }


def measure_costs() -> Iterator[dict[str, Any]]:
    """The costs with the GPU, if there is one, and on the CPU alone."""
    every = list_devices()
    with tempfile.TemporaryDirectory() as folder:
        for devices in ([every] if every else []) + [()]:
            with Executor(cache_dir=Path(folder), devices=devices) as executor:
                for size in TIMED if devices else TIMED[:1]:
                    for dtype in ("float16", "float32", "float64"):
                        yield measure_cost(executor, dtype, size)


def main() -> None:
    """Measure, and write the results."""
    environment = describe_environment()
    rows, alarms = [], []
    with ProcessPoolExecutor(usable_cores(), initializer=limit_blas_threads) as processes:
        for missed, alarm in processes.map(count_type, TYPES):
            rows += missed
            alarms.append(alarm)
            print(*missed, alarm, sep="\n", flush=True)
    cost = list(measure_costs())
    print(*cost, sep="\n")
    found = {"changes_above_errors": LARGE, "rows": rows, "right": alarms, "cost": cost}
    write_document(RESULTS / "verify.json", **environment, **found)


def render_verify(folder: Path) -> str:
    """Two sentences with the figures that were measured."""
    document = json.loads((folder / "verify.json").read_text(encoding="utf-8"))
    return f"{describe_missed(document)}\n{describe_cost(document)}"


def describe_missed(document: dict[str, Any]) -> str:
    """How many damaged products passed, and how many right ones failed."""
    rows, right = document["rows"], document["right"]
    missed, damaged = (sum(row[name] for row in rows) for name in ("missed", "tries"))
    alarms, sound = (sum(row[name] for row in right) for name in ("false_alarms", "tries"))
    return (
        f"Of {damaged:,} products that `python -m benchmarks.verify` damaged by more than "
        f"{document['changes_above_errors']:.0f} times their rounding\nerrors, {missed} passed. "
        f"Of {sound:,} right products, {alarms} failed."
    )


def describe_cost(document: dict[str, Any]) -> str:
    """How many times as long products take with their check, on the GPU and on the CPU."""
    hardware, costs = document["hardware"], document["cost"]
    times = {
        device: [1 + row["share"] for row in costs if bool(row["gpu_rows"]) == on_gpu]
        for device, on_gpu in (("GPU", True), ("CPU", False))
    }
    found = [
        f"{min(shares):.1f} to {max(shares):.1f} times as long on the {device}"
        for device, shares in times.items()
        if shares
    ]
    sizes, joined = sorted({row["size"] for row in costs}), ", and\n".join(found)
    return (
        f"With the check, products of {sizes[0]}³ to {sizes[-1]}³ took {joined} "
        f"({hardware['gpu']}, {hardware['cores']} cores; commit {document['commit']})."
    )


if __name__ == "__main__":
    main()
