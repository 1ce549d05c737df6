"""The bounds that the service should meet over HTTP, and whether a results file meets them.

A bound applies to several cases; its judgement names the worst one. A run prints them at its end.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.common.tables import render_columns
from benchmarks.http.baselines.baseline import Name
from benchmarks.http.jobs import WITHOUT_SPLIT
from benchmarks.http.rows import Case, HttpResults, Row
from benchmarks.http.transfers import SINK

MS: Final = 1e-3
SHARE_OF_FLOOR: Final = 1.2
FROM_SIZE: Final = 256
"""Smallest size at which the service must not be slower than NumPy with FastAPI."""

OWN_BYTES: Final = 64 * 2**20

Rows = Mapping[str, Row]
"""All rows of a case, by baseline."""

Measure = Callable[[Row, Rows], tuple[float, float]]
"""A row's figure, and its bound."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One case of a bound.

    Attributes:
        where: The case.
        found: The measured figure.
        asked: Its bound.
    """

    where: str
    found: float
    asked: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """A bound, and what was found.

    Attributes:
        what: The bound in words, with its unit.
        at_least: Whether more is better.
        figures: The cases that were measured.
    """

    what: str
    at_least: bool
    figures: tuple[Figure, ...]

    @property
    def worst(self) -> Figure | None:
        """The case nearest to the bound, or furthest beyond it; None if none was measured."""
        return max(self.figures, key=self._use, default=None)

    @property
    def met(self) -> int:
        """Number of cases that meet the bound."""
        return sum(self._use(figure) <= 1 for figure in self.figures)

    @property
    def holds(self) -> bool | None:
        """Whether all cases meet the bound; None if none was measured."""
        return self.met == len(self.figures) if self.figures else None

    def _use(self, figure: Figure) -> float:
        """The figure over its bound, or the inverse if more is better: above 1 is beyond."""
        above, below = figure.found, figure.asked
        if self.at_least:
            above, below = below, above
        return above / below if below else (0.0 if above <= 0 else float("inf"))


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of rows.

    Attributes:
        words: The bound in words, with its unit.
        kinds: Kinds of cases.
        measure: Called with a row of `baseline`, and all rows of its case.
        applies: Whether it applies to a row.
        baseline: The baseline of the rows.
        needs: Other baselines whose rows `measure` uses.
        at_least: Whether more is better.
    """

    words: str
    kinds: tuple[str, ...]
    measure: Measure
    applies: Callable[[Row], object] = lambda _: True
    baseline: str = Name.OURS
    needs: Collection[str] = ()
    at_least: bool = False

    def judge(self, results: HttpResults) -> Judgement:
        """Compare it with a results file."""
        cases = [case for kind in self.kinds for case in results.list_cases(kind)]
        figures = []
        for case in cases:
            rows = results.find_case(case)
            if {self.baseline, *self.needs} <= set(rows) and self.applies(rows[self.baseline]):
                figures.append(Figure(str(case), *self.measure(rows[self.baseline], rows)))
        return Judgement(self.words, self.at_least, tuple(figures))


def render_judgements(judgements: Iterable[Judgement]) -> str:
    """A table of bounds, and of the worst case of each."""
    met = {True: "yes", False: "**no**", None: "not measured"}

    def show_worst(tell: Callable[[Judgement, Figure], str]) -> Callable[[Judgement], str]:
        return lambda one: tell(one, one.worst) if one.worst else ""

    columns: dict[str, Callable[[Judgement], str]] = {
        "bound": lambda one: one.what,
        "holds at": show_worst(lambda one, _: f"{one.met} of {len(one.figures)}"),
        "worst case": show_worst(lambda _, worst: worst.where),
        "asked": show_worst(lambda one, x: f"{'≥' if one.at_least else '≤'} {x.asked:.3g}"),
        "found": show_worst(lambda _, worst: f"{worst.found:.3g}"),
        "met": lambda one: met[one.holds],
    }
    return render_columns(columns, judgements)


def judge(results: HttpResults) -> list[Judgement]:
    """Every bound that this machine can be held to."""
    with_gpu = results.document["hardware"]["gpu"] is not None
    bounds = (*BOUNDS, *(GPU_BOUNDS if with_gpu else CORES_BOUNDS))
    return [bound.judge(results) for bound in bounds]


def _stay_within(share: float, moment: float, of: Callable[[Row, Rows], float | None]) -> Measure:
    """Milliseconds of a row; its bound is `share` of other seconds, and `moment` more."""
    return lambda row, rows: (row.p50_seconds / MS, (share * (of(row, rows) or 0.0) + moment) / MS)


def _is_at(size: int, clients: int) -> Callable[[Row], bool]:
    """Whether a row is of this case, in float32."""
    return lambda row: row.case == Case("product", size, "float32", clients)


def _is_crowd(row: Row) -> bool:
    return row.clients == 512 and row.size == 64


def _is_large(row: Row) -> bool:
    return isinstance(row.size, int) and row.size >= FROM_SIZE


def _has_floor(row: Row) -> bool:
    return row.floor_seconds is not None


def _find_floor(row: Row, _: Rows) -> float | None:
    return row.floor_seconds


def _compare_sink(asked: float) -> Measure:
    """Our rate over the bare server's."""
    return lambda row, rows: (rows[SINK].p50_seconds / row.p50_seconds, asked)


def _find_server_seconds(row: Row) -> float:
    return row.p50_seconds if row.server_seconds is None else row.server_seconds


def _compare_split(row: Row, rows: Rows) -> tuple[float, float]:
    without = _find_server_seconds(rows[WITHOUT_SPLIT])
    return without / _find_server_seconds(row), 1.05


_PRODUCT: Final = ("product",)

BOUNDS: Final = (
    Bound(f"one client: at most {SHARE_OF_FLOOR} times the floor + 0.3 ms, in ms", _PRODUCT,
          _stay_within(SHARE_OF_FLOOR, 0.3 * MS, _find_floor),
          lambda row: row.clients == 1 and _has_floor(row)),
    Bound(f"never slower than {Name.NUMPY} from {FROM_SIZE}² on, time over time", _PRODUCT,
          lambda row, rows: (row.p50_seconds / rows[Name.NUMPY].p50_seconds, 1.0),
          _is_large, needs={Name.NUMPY}),
    Bound("512 clients at 64²: 99th percentile over median", _PRODUCT,
          lambda row, _: (row.p99_seconds / row.p50_seconds, 2.0), _is_crowd),
    Bound("512 clients: requests refused", _PRODUCT, lambda row, _: (row.refused, 0.0), _is_crowd),
    Bound("through a lease: the executor + 0.5 ms, in ms", _PRODUCT,
          _stay_within(1.0, 0.5 * MS, lambda _, rows: rows[Name.EXECUTOR].p50_seconds),
          baseline=Name.OURS_LEASE, needs={Name.EXECUTOR}),
    Bound(f"64² by the Open Inference Protocol: rate over {Name.PYTRITON}'s", _PRODUCT,
          lambda row, rows: (row.rate / rows[Name.PYTRITON].rate, 4.0), _is_at(64, 1),
          baseline=Name.OURS_V2, needs={Name.PYTRITON}, at_least=True),
    Bound(f"1024² by the Open Inference Protocol: time over {Name.PYTRITON}'s", _PRODUCT,
          lambda row, rows: (row.p50_seconds / rows[Name.PYTRITON].p50_seconds, 0.5),
          _is_at(1024, 1), baseline=Name.OURS_V2, needs={Name.PYTRITON}),
    Bound(f"64² by tritonclient: rate over {Name.PYTRITON}'s", _PRODUCT,
          lambda row, rows: (row.rate / rows[Name.PYTRITON_CLIENT].rate, 4.0), _is_at(64, 1),
          baseline=Name.OURS_V2_CLIENT, needs={Name.PYTRITON_CLIENT}, at_least=True),
    Bound(f"1024² by tritonclient: time over {Name.PYTRITON}'s", _PRODUCT,
          lambda row, rows: (row.p50_seconds / rows[Name.PYTRITON_CLIENT].p50_seconds, 0.5),
          _is_at(1024, 1), baseline=Name.OURS_V2_CLIENT, needs={Name.PYTRITON_CLIENT}),
    Bound("upload of a kept matrix, rate over a bare sink's", ("upload",), _compare_sink(0.8),
          needs={SINK}, at_least=True),
    Bound("download, rate over a bare sendall's", ("download",), _compare_sink(0.9),
          needs={SINK}, at_least=True),
    Bound("own memory's growth in both, MiB", ("upload", "download"),
          lambda row, _: ((row.own_bytes or 0) / 2**20, OWN_BYTES / 2**20),
          lambda row: row.own_bytes is not None),
    Bound("job: longer of product and disk + 10 ms, in ms", ("job",),
          _stay_within(1.0, 10 * MS, _find_floor), _has_floor),
    Bound("job with its result in memory: product + 3 ms, in ms", ("job-memory",),
          _stay_within(1.0, 3 * MS, _find_floor), _has_floor),
)  # fmt: skip
"""Bounds on every machine."""

CORES_BOUNDS: Final = (
    Bound("64² on 2 cores: median, in ms", _PRODUCT,
          lambda row, _: (row.p50_seconds / MS, 0.6), _is_at(64, 1)),
    Bound("64² on 2 cores: requests a second, one client", _PRODUCT,
          lambda row, _: (row.rate, 1500.0), _is_at(64, 1), at_least=True),
    Bound("64² on 2 cores: requests a second, 16 clients", _PRODUCT,
          lambda row, _: (row.rate, 3000.0), _is_at(64, 16), at_least=True),
)  # fmt: skip
"""Bounds on two cores without a GPU."""

GPU_BOUNDS: Final = (
    Bound(f"never slower than {Name.CUPY} but for 0.2 ms, in ms", _PRODUCT,
          _stay_within(1.0, 0.2 * MS, lambda _, rows: rows[Name.CUPY].p50_seconds),
          needs={Name.CUPY}),
    Bound(f"4096²: times as fast as {Name.CUPY}", _PRODUCT,
          lambda row, rows: (rows[Name.CUPY].p50_seconds / row.p50_seconds, 4.0), _is_at(4096, 1),
          needs={Name.CUPY}, at_least=True),
    Bound("4096² float32 through a lease, in ms", _PRODUCT,
          lambda row, _: (row.p50_seconds / MS, 6.0), _is_at(4096, 1), baseline=Name.OURS_LEASE),
    Bound("link-bound jobs with F > 0: rows that the CPU computed", ("split",),
          lambda row, _: (row.f_actual or 0, 1.0), lambda row: row.f, at_least=True),
    Bound("link-bound jobs: speed over the same with F = 0", ("split",), _compare_split,
          lambda row: row.f, needs={WITHOUT_SPLIT}, at_least=True),
)  # fmt: skip
"""Bounds on machines with a GPU; jobs that the model does not split are not judged."""
