"""The error of predicted seconds, and its bounds."""

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.host.baselines.lineup import OURS, PRESET
from benchmarks.host.judgement import Judgement, judge_percentiles
from benchmarks.host.results import HostRow

ERRORS: Final = {OURS: (0.03, 0.10), PRESET: (0.10, 0.30)}
"""Bounds of the error, median and 95th percentile: calibrated, and from a preset alone."""

LEARNING_PRODUCTS: Final = 50
LEARNED_ERROR: Final = 0.08
"""Bound of the median error from a preset once LEARNING_PRODUCTS have corrected it."""


def judge_predictions(rows: Sequence[HostRow]) -> list[Judgement]:
    """Bounds of the errors of predictions in contests."""
    judgements = []
    for name, (middle, high) in ERRORS.items():
        errors = list_errors(
            (row.predicted_seconds, row.seconds)
            for row in rows
            if row.baseline == name and row.predicted_seconds is not None
        )
        of = "calibrated" if name == OURS else "from a preset alone"
        bounds = {50: middle, 95: high}
        judgements += judge_percentiles(f"error of predicted seconds, {of}", bounds, errors)
    learned = list_errors(
        (row.settings["learned_seconds"], row.seconds)
        for row in rows
        if row.settings and row.settings.get("products_before", 0) >= LEARNING_PRODUCTS
    )
    of = f"from a preset and {LEARNING_PRODUCTS} products"
    bounds = {50: LEARNED_ERROR}
    return judgements + judge_percentiles(f"error of predicted seconds, {of}", bounds, learned)


def list_errors(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """|predicted - measured| / measured of each pair with a measured time."""
    return [abs(predicted - measured) / measured for predicted, measured in pairs if measured > 0]
