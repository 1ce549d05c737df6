"""How many wrong products pass their check, how many right ones do not, and what the check takes.

Run `python -m benchmarks.verify`; no GPU is needed. It writes benchmarks/results/verify.json: for
every element type and every kind of damage 100 tries, in products of sizes 64 to 2048 of normal,
uniform and log-normal elements; 10,000 right products with all that their types have; and the
check's time beside the product's.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from benchmarks.damage import (
    DAMAGES,
    DISTRIBUTIONS,
    LARGE,
    TYPES,
    damage,
    draw_product,
    draw_special,
    measure_error,
)
from benchmarks.environment import describe_environment
from benchmarks.tables import RESULTS
from wavetrim.scheduler.verify import verify_product

SEED: Final = 15
TRIES: Final = 100
RIGHT: Final = 10_000
SIZES: Final = (64, 200, 512)
LARGEST: Final = 2048
TIMED: Final = 4096
TURNS: Final = 7


def count_missed(dtype: str, tries: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of damage: tries, and how many of them passed."""
    random = np.random.default_rng(SEED)
    sizes = [(size, name) for size in SIZES for name in DISTRIBUTIONS]
    sizes.append((LARGEST, "normal"))
    products = [draw_product(random, size, dtype, name) for size, name in sizes]
    errors = [measure_error(product, random) for product in products]
    for name in DAMAGES:
        done = missed = drawn = 0
        while done < tries:
            place = drawn % len(products)
            drawn += 1
            product = products[place]
            out = damage(product, name, errors[place], random)
            if out is not None:
                done += 1
                missed += verify_product(product.a, product.b, None, out).passed
        yield {"type": dtype, "change": name, "tries": done, "missed": missed}


def count_false_alarms(dtype: str, count: int) -> dict[str, Any]:
    """How many right products of a type do not pass."""
    random = np.random.default_rng(SEED)
    alarms = 0
    for _ in range(count):
        product = draw_special(random, dtype)
        alarms += not verify_product(
            product.a, product.b, product.c, product.out, alpha=product.alpha, beta=product.beta
        ).passed
    return {"type": dtype, "change": None, "tries": count, "false_alarms": alarms}


def measure_cost(dtype: str) -> dict[str, Any]:
    """Median seconds of a large product and of its check, in turns."""
    random = np.random.default_rng(SEED)
    a, b = (random.standard_normal((TIMED, TIMED)).astype(dtype) for _ in range(2))
    out = np.empty_like(a)
    seconds: list[list[float]] = [[], []]
    for _ in range(TURNS):
        start = time.perf_counter()
        np.matmul(a, b, out=out)
        seconds[0].append(time.perf_counter() - start)
        start = time.perf_counter()
        verify_product(a, b, None, out).require()
        seconds[1].append(time.perf_counter() - start)
    product, check = map(statistics.median, seconds)
    return {
        "type": dtype,
        "size": TIMED,
        "product_seconds": product,
        "check_seconds": check,
        "share": check / product,
    }


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="verify.json", help="name of the results file")
    out = RESULTS / parser.parse_args().out
    environment = describe_environment()
    rows = []
    for dtype in TYPES:
        for row in count_missed(dtype, TRIES):
            rows.append(row)
            print(row, flush=True)
    alarms = [count_false_alarms(dtype, -(-RIGHT // len(TYPES))) for dtype in TYPES]
    document = {
        **environment,
        "changes_above_errors": LARGE,
        "rows": rows,
        "right": alarms,
        "cost": [measure_cost(dtype) for dtype in ("float32", "float64")],
    }
    for row in (*alarms, *document["cost"]):
        print(row, flush=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
