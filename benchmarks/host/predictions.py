"""The error of predicted seconds, and the difference between two medians of the same plan.

A prediction can be no better than a second measurement. If wavetrim and one of its variants had the
same plan, the difference of their medians is the least error that a model can have in that run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.common.tables import render_columns, show
from benchmarks.host.baselines.lineup import GPU_ALONE, OURS, PRESET
from benchmarks.host.judgement import Judgement, find_percentile, judge_percentiles
from benchmarks.host.results import Contest, HostRow, list_contests
from wavetrim.scheduler.problem import MEMORIES

ERRORS: Final = {OURS: (0.03, 0.10), PRESET: (0.10, 0.30)}
"""Bounds of the error, median and 95th percentile: calibrated, and from a preset alone."""

LEARNING_PRODUCTS: Final = 50
LEARNED_ERROR: Final = 0.08
"""Bound of the median error from a preset once LEARNING_PRODUCTS have corrected it."""

BRIEF_SECONDS: Final = 1e-3
"""Shorter products are listed apart; chosen."""

DEVICES: Final = ("GPU", "GPU and CPU", "CPU")


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


@dataclass(frozen=True, slots=True)
class _Kind:
    """Contests whose plans use the same devices, from the same memory, of similar length."""

    device: str
    memory: str
    is_brief: bool
    contests: tuple[Contest, ...]

    @property
    def errors(self) -> list[float]:
        """Errors of the calibrated predictions."""
        rows = [one.ours for one in self.contests]
        return list_errors((row.predicted_seconds or 0.0, row.seconds) for row in rows)

    @property
    def differences(self) -> list[float]:
        """Relative differences between medians of the same plan."""
        return [
            abs(one.ours.seconds / other.seconds - 1)
            for one in self.contests
            for other in (one.rows.get(PRESET), one.rows.get(GPU_ALONE))
            if other is not None and _find_plan(other) == _find_plan(one.ours)
        ]


def render_errors(rows: Iterable[HostRow]) -> str:
    """For each kind of product, the errors of predictions and the differences of measurements."""
    contests = list_contests(rows)
    kinds = [
        _Kind(device, memory, is_brief, tuple(of))
        for device in DEVICES
        for memory in reversed(MEMORIES)
        for is_brief in (True, False)
        if (of := [x for x in contests if _find_kind(x.ours) == (device, memory, is_brief)])
    ]
    if not kinds:
        return ""
    length = f"{BRIEF_SECONDS * 1e3:g} ms"
    return render_columns(
        {
            "computed by": lambda kind: kind.device,
            "memory": lambda kind: kind.memory,
            "takes": lambda kind: f"below {length}" if kind.is_brief else f"{length} and more",
            "of": lambda kind: str(len(kind.contests)),
            "error, median": lambda kind: _show_percentile(kind.errors, 50),
            "95th percentile": lambda kind: _show_percentile(kind.errors, 95),
            "same plan twice, median": lambda kind: _show_percentile(kind.differences, 50),
            "95th percentile ": lambda kind: _show_percentile(kind.differences, 95),
        },
        kinds,
    )


def _find_kind(row: HostRow) -> tuple[str, str, bool]:
    device = {0: "GPU", row.m: "CPU"}.get(row.f or 0, "GPU and CPU")
    return device, row.memory, row.seconds < BRIEF_SECONDS


def _find_plan(row: HostRow) -> tuple[int | None, str | None]:
    return row.f, (row.settings or {}).get("kernel")


def _show_percentile(values: Sequence[float], percent: int) -> str:
    return show(find_percentile(values, percent), ".1%") if values else ""
