"""Several GPUs: the bounds of a run on them."""

import statistics
from typing import Final

from benchmarks.common.shapes import Shape, make_cube, name_shape
from benchmarks.host.baselines.lineup import FEWER, ONE_GPU, OURS, RELAYED
from benchmarks.host.judgement import Judgement, judge_percentiles
from benchmarks.host.predictions import list_errors
from benchmarks.host.results import SLOWER_SECONDS, SLOWER_SHARE, HostResults, HostRow
from benchmarks.host.throughput import PRODUCTS, SHAPE

LIMIT_RATIOS: Final[dict[Shape, float]] = {
    make_cube(16384): 1.08,
    make_cube(8192): 1.25,
    (16384, 16384, 256): 1.10,
}
"""Largest time over the limit of two GPUs and their links together, float32."""

MORE_LIMIT_RATIOS: Final[dict[Shape, float]] = {make_cube(16384): 1.15}
"""The same of more GPUs."""

LEAST_SPEEDS: Final = {"cublasxt": 1.35, "cupy-gpus": 1.0}
"""Least geometric mean of the speed over others on the same GPUs, over the suite, float32."""

MOST_ERROR: Final = 0.10
"""Median error of the predicted seconds of products on several GPUs."""

RELAYED_SHAPE: Final[Shape] = (16384, 16384, 256)
MOST_RELAYED_RATIO: Final = 0.65
"""Largest time of this product with a relay over that on one GPU, both with the CPU, float32."""

LEAST_RELAYED_SPEED: Final = 1.8
"""Least speed with a relay over one GPU of the product that gains most: one bound by its link."""

LEAST_THROUGHPUT: Final = {2: 1.9}
USUAL_THROUGHPUT: Final = 0.85
"""Least products a second over those of one GPU, by the number of GPUs; of others, for each."""

_Times = dict[tuple[Shape, str], dict[str, HostRow]]


def judge_several(results: HostResults) -> list[Judgement]:
    """All bounds of a run on several GPUs."""
    times = _sort_rows(results)
    plain = [rows for (_, dtype), rows in times.items() if dtype == "float32"]
    judgements = []
    bounds = LIMIT_RATIOS if results.document["gpus"] == 2 else MORE_LIMIT_RATIOS
    for shape, bound in bounds.items():
        ours = times.get((shape, "float32"), {}).get(OURS)
        share = None if ours is None else ours.limit_share
        ratio = 1 / share if share else None
        what = f"{name_shape(shape)} float32: time over the limit of the GPUs together"
        judgements.append(Judgement(what, bound, ratio, int(ratio is not None), at_least=False))
    for name, bound in LEAST_SPEEDS.items():
        speeds = [rows[name].seconds / rows[OURS].seconds for rows in plain if name in rows]
        mean = statistics.geometric_mean(speeds) if speeds else None
        what = f"speed over {name}, geometric mean over the suite, float32"
        judgements.append(Judgement(what, bound, mean, len(speeds), at_least=True))
    judgements += _judge_throughput(results)
    judgements += _judge_relays(times)
    # Where no other GPU is used, all is as on one.
    shared = [rows for rows in times.values() if _count_gpus(rows[OURS]) > 1]
    errors = list_errors(
        (rows[OURS].predicted_seconds or 0.0, rows[OURS].seconds) for rows in shared
    )
    what = "error of predicted seconds, products on several GPUs"
    judgements += judge_percentiles(what, {50: MOST_ERROR}, errors)
    return [*judgements, _judge_fewer(times)]


def _judge_fewer(times: _Times) -> Judgement:
    """Products that take longer than where fewer GPUs may be used, and another number is."""
    pairs = []
    for rows in times.values():
        ours, used = rows[OURS], _count_gpus(rows[OURS])
        others = [rows[name] for name in FEWER if name in rows and _count_gpus(rows[name]) != used]
        if others:
            pairs.append((ours.seconds, min(row.seconds for row in others)))
    slower = sum(ours > least * (1 + SLOWER_SHARE) + SLOWER_SECONDS for ours, least in pairs)
    what = "products of the suite that are slower than on fewer of the GPUs"
    return Judgement(what, 0, slower, len(pairs), at_least=False)


def _count_gpus(row: HostRow) -> int:
    """GPUs of the row's plan."""
    return int((row.settings or {}).get("gpus", 1))


def _judge_relays(times: _Times) -> list[Judgement]:
    """Products with relays over those on one GPU."""
    ratios = {
        product: rows[RELAYED].seconds / rows[ONE_GPU].seconds
        for product, rows in times.items()
        if RELAYED in rows
    }
    if not ratios:
        return []
    ratio, speed = ratios.get((RELAYED_SHAPE, "float32")), 1 / min(ratios.values())
    what = f"{name_shape(RELAYED_SHAPE)} float32 with relays: time over one GPU's"
    return [
        Judgement(what, MOST_RELAYED_RATIO, ratio, int(ratio is not None), at_least=False),
        Judgement(
            "with relays: largest speed over one GPU", LEAST_RELAYED_SPEED, speed, len(ratios),
            at_least=True,
        ),
    ]  # fmt: skip


def _judge_throughput(results: HostResults) -> list[Judgement]:
    """Products a second on all GPUs over those on one."""
    gpus = int(results.document["gpus"])
    rates = {
        (row["baseline"], row["gpus"]): row["products_per_second"]
        for row in results.document.get("throughput", ())
    }
    if (OURS, gpus) not in rates:
        return []
    what = f"{PRODUCTS} products of {name_shape(SHAPE)} float32 at once: speed over one GPU"
    bound = LEAST_THROUGHPUT.get(gpus, USUAL_THROUGHPUT * gpus)
    found = rates[OURS, gpus] / rates[OURS, 1]
    peers = f"speed over CuPy's on the same {gpus} GPUs"
    return [
        Judgement(what, bound, found, 1, at_least=True),
        Judgement(
            f"the same: {peers}", 1.0, rates[OURS, gpus] / rates["cupy-gpus", gpus], 1,
            at_least=True,
        ),
    ]  # fmt: skip


def _sort_rows(results: HostResults) -> _Times:
    """The rows of each product of the suite from page-locked memory, by baseline."""
    found: _Times = {}
    for row in results.rows:
        if (row.memory, row.group) == ("pinned", "suite"):
            found.setdefault((row.shape, row.dtype), {})[row.baseline] = row
    return {product: rows for product, rows in found.items() if {OURS, ONE_GPU} <= rows.keys()}
