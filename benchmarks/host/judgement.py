"""A figure with its bound."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.common.tables import render_columns, show


@dataclass(frozen=True, slots=True)
class Judgement:
    """A figure and its bound.

    Attributes:
        what: The figure in words.
        bound: Its bound.
        found: The measured figure; None if it was not measured.
        count: Contests or sweeps that it is from.
        at_least: Whether more is better.
    """

    what: str
    bound: float
    found: float | None
    count: int
    at_least: bool

    @property
    def met(self) -> bool | None:
        """Whether the bound is met; None if the figure was not measured."""
        if self.found is None:
            return None
        return self.found >= self.bound if self.at_least else self.found <= self.bound


def render_judgements(judgements: Iterable[Judgement]) -> str:
    """A table of figures and bounds."""
    met = {True: "yes", False: "**no**", None: "not measured"}
    columns: dict[str, Callable[[Judgement], str]] = {
        "figure": lambda one: one.what,
        "bound": lambda one: f"{'≥' if one.at_least else '≤'} {one.bound:g}",
        "found": lambda one: show(one.found, ".3g" if one.bound == 0 else ".3f"),
        "of": lambda one: str(one.count),
        "met": lambda one: met[one.met],
    }
    return render_columns(columns, judgements)


def find_percentile(values: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile: the least value with `percent` of them at or below it."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def judge_values(
    what: str,
    bound: float,
    values: Iterable[float | None],
    summarize: Callable[[Sequence[float]], float],
    *,
    at_least: bool = False,
) -> Judgement:
    """A figure from those values that are known."""
    known = [value for value in values if value is not None]
    found = summarize(known) if known else None
    return Judgement(what, bound, found, len(known), at_least)


def judge_speed(what: str, bound: float, ratios: Iterable[float | None]) -> Judgement:
    """Geometric mean of a speed, from ratios of our time to another's."""

    def find_speed(known: Sequence[float]) -> float:
        return statistics.geometric_mean(1 / ratio for ratio in known)

    return judge_values(what, bound, ratios, find_speed, at_least=True)


def judge_percentiles(
    what: str, bounds: Mapping[int, float], values: Sequence[float]
) -> list[Judgement]:
    """Percentiles of some values, each with its bound."""
    names = {percent: f"{percent}th percentile" for percent in bounds} | {50: "median"}
    return [
        judge_values(
            f"{what}, {names[percent]}", bound, values, partial(find_percentile, percent=percent)
        )
        for percent, bound in bounds.items()
    ]
