"""The kernel benchmark's decisions: who takes part, for how long, and what is made of it."""

import math
import sys
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.kernels import meter
from benchmarks.kernels.contest import (
    AHEAD_SECONDS,
    LEAST_TURNS,
    MOST_LAUNCHES,
    MOST_SECONDS,
    admit_all,
    count_launches,
    run_contest,
)
from benchmarks.kernels.exact import MOST_K, ExactProduct
from benchmarks.kernels.meter import Meter, Reading
from benchmarks.kernels.rows import Score, describe_row, make_rows
from benchmarks.kernels.suite import (
    ALL_SHAPES,
    FEW_TURNS,
    LADDER_SHAPE,
    SUITE,
    TAIL_HEAVY,
    TURNS,
    Contestant,
    Paces,
    estimate_seconds,
    hold_contestants,
    list_budgets,
)
from benchmarks.kernels.summary import find_best, find_mean, format_summary, summarize
from benchmarks.kernels.tile_choice import TileHeuristics, choose_tiles
from tests.benchmarks.kernel_figures import ENTRIES, invent_results, invent_row
from tests.native.c_library import build_library
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.kernels.timing.seconds import Burst
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile

HOPPER = list_kernels(dtype="float32", compute_capability=(9, 0))


def test_every_shape_of_suite_and_tails_is_measured_once() -> None:
    assert set(ALL_SHAPES) == {*SUITE, *TAIL_HEAVY}
    assert len(ALL_SHAPES) == len(set(ALL_SHAPES)) == 16
    assert len(SUITE) == 13


def test_all_kernels_take_part_at_the_first_product() -> None:
    picked = Paces().pick(HOPPER, (1024, 1024, 1024))
    assert tuple(one.spec for one in picked) == HOPPER
    turns = {one.spec.name: one.turns for one in picked}
    assert turns["naive"] == turns["shared"] == FEW_TURNS
    assert turns["register"] == turns["bulk"] == turns["tensor"] == turns["cublas"] == TURNS >= 20


def test_slow_textbook_kernels_are_left_out_of_large_products_but_the_ladders() -> None:
    paces = Paces()
    for spec in HOPPER:
        paces.note(spec, (2048, 2048, 2048), 0.03)
    large = {one.spec.name for one in paces.pick(HOPPER, (4224, 4224, 4224))}
    assert large == {"register", "bulk", "tensor", "cublas"}
    ladder = [one.spec for one in paces.pick(HOPPER, LADDER_SHAPE)]
    textbook = [spec for spec in ladder if spec.name not in large]
    assert textbook == [
        find_kernel(name, "float32") for name in ("naive", "simple", "coalesced", "shared")
    ]


def test_persistent_kernels_are_held_to_one_some_and_all_multiprocessors() -> None:
    assert list_budgets(132) == (1, 8, 32, 66, 132)
    assert list_budgets(2) == (1, 2)
    held = hold_contestants(HOPPER, (8, 132))
    assert {one.spec.name for one in held} >= {"bulk", "cublas"}
    assert {one.spec.name for one in held}.isdisjoint({"naive", "shared"})
    assert [one.sms for one in held[:2]] == [8, 132]


def test_cublas_is_held_only_to_as_many_multiprocessors_as_it_can_be() -> None:
    held = {one.sms for one in hold_contestants(HOPPER, (1, 8, 66)) if one.spec.name == "cublas"}
    assert held == {8, 66}


def test_an_h200_has_time_for_all() -> None:
    assert 2 * sum(map(estimate_seconds, ALL_SHAPES)) < 130


class Simulated:
    """A contest whose turns take given seconds, or at which kernels fail."""

    def __init__(self, **by_kernel: float | Exception) -> None:
        self.by_kernel = by_kernel

    def admit(self, contestant: Contestant) -> Score:
        if isinstance(found := self.by_kernel[contestant.spec.name], Exception):
            raise found
        return Score(1, 0.0, same_bits=True)

    def measure(self, contestant: Contestant, score: Score) -> None:
        score.seconds.append(self.by_kernel[contestant.spec.name])


def enter(*turns: int) -> list[Contestant]:
    """bulk, and cublas."""
    names = ("bulk", "cublas")
    return [Contestant(find_kernel(name, "float32"), x) for name, x in zip(names, turns)]  # noqa: B905


@pytest.mark.parametrize(
    ("seconds", "wanted", "until", "turns"),
    [
        ((0.1, 0.1), (5, 2), math.inf, [5, 2]),
        ((0.1, 0.1), (21, 21), -math.inf, [LEAST_TURNS] * 2),
        ((0.1, MOST_SECONDS / 5.5), (21, 21), math.inf, [21, 6]),
    ],
    ids=["as wanted", "no time", "slow"],
)
def test_slow_kernels_and_those_without_time_take_fewer_turns(
    seconds, wanted, until: float, turns: list[int]
) -> None:
    contest = Simulated(bulk=seconds[0], cublas=seconds[1])
    scores = admit_all(contest, enter(*wanted), pytest.fail)  # type: ignore[arg-type]
    run_contest(contest, scores, until)  # type: ignore[arg-type]
    assert [len(score.seconds) for score in scores.values()] == turns


@pytest.mark.parametrize(
    ("seconds", "enqueue_seconds", "launches"),
    [
        (1.0, 1e-4, 1),
        (1e-3, 1e-4, 3),
        (1e-6, 1e-6, MOST_LAUNCHES),
        (1e-5, 1e-5 + AHEAD_SECONDS / 7, 7),
        (1e-5, 1.0, 1),
    ],
)
def test_short_products_are_launched_several_times_a_turn(
    seconds: float, enqueue_seconds: float, launches: int
) -> None:
    assert count_launches(Burst(seconds, enqueue_seconds)) == launches


def test_rows_compare_with_cublas_under_the_same_budget() -> None:
    bulk, cublas = find_kernel("bulk", "float32"), find_kernel("cublas", "float32")
    scores = {
        Contestant(bulk, 4, 33): Score(1, 1e-7, same_bits=True, seconds=[2.0, 4.0, 3.0]),
        Contestant(cublas, 4, 33): Score(1, 2e-7, same_bits=True, seconds=[6.0, 6.0, 6.0]),
        Contestant(cublas, 4, 132): Score(
            *(2, 2e-7, True, [1.0, 1.0]), [Reading(1700, None), Reading(1800, None)]
        ),
    }
    held, peer, full = make_rows((10**4, 10**4, 10**4), scores, 132, {bulk: 2.0, cublas: 1.0})
    assert (held.kernel, held.sms, held.turns, held.median_seconds) == ("bulk", 33, 3, 3.0)
    assert held.tflops == pytest.approx(2 / 3)
    assert held.ratio_to_cublas == pytest.approx(2)
    assert held.rate_share == pytest.approx(2 / 3 / (2.0 * 33 / 132))
    assert (held.cublas_max_relative_error, peer.ratio_to_cublas) == (2e-7, 1.0)
    assert held.spread == pytest.approx(2 / 3)
    assert (held.clock_mhz, full.clock_mhz, full.power_watts) == (None, 1750, None)
    assert full.rate_share == pytest.approx(2.0)
    assert "of its share" in describe_row(held)


def test_rows_without_cublas_have_no_ratio() -> None:
    scores = {Contestant(find_kernel("bulk", "float32")): Score(1, 0.0, True, [1.0] * 3)}
    (row,) = make_rows((8, 8, 8), scores, 132)
    assert (row.ratio_to_cublas, row.cublas_max_relative_error, row.rate_share) == (None,) * 3
    assert not row.is_held
    assert row.sms == 132


def test_a_kernel_that_fails_leaves_the_others_unless_nothing_works_any_more() -> None:
    refused: list[tuple[str, str]] = []

    def admit(failure: Exception) -> dict[Contestant, Score]:
        contest = Simulated(bulk=failure, cublas=1.0)
        refuse = lambda one, why: refused.append((one.label, why))  # noqa: E731
        return admit_all(contest, enter(4, 4), refuse)  # type: ignore[arg-type]

    assert [one.spec.name for one in admit(OperandError("too small"))] == ["cublas"]
    assert refused == [("bulk 128x256x16 float32", "too small")]
    with pytest.raises(DeviceFailure):
        admit(DeviceFailure("illegal address", poisoned=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_are_those_of_exact_arithmetic(dtype: str) -> None:
    generator = np.random.default_rng(5)
    a, b = (generator.uniform(-1, 1, shape).astype(dtype) for shape in ((3, 70), (70, 2)))
    found = a @ b
    errors = ExactProduct(a, b).find_relative_errors(found)
    for (row, column), error in np.ndenumerate(errors):
        columns = zip(a[row].tolist(), b[:, column].tolist(), strict=True)
        pairs = [(Fraction(x), Fraction(y)) for x, y in columns]
        exact, scale = sum(x * y for x, y in pairs), sum(abs(x * y) for x, y in pairs)
        wanted = abs(Fraction(float(found[row, column])) - exact) / scale
        assert float(error) == pytest.approx(float(wanted), abs=2.0**-57 / float(scale))


def test_errors_of_the_longest_sums_are_exact_too() -> None:
    generator = np.random.default_rng(6)
    a, b = (generator.uniform(-1, 1, shape) for shape in ((2, MOST_K), (MOST_K, 2)))
    exact = np.array([[math.fsum(_multiply_exactly(x, y)) for y in b.T] for x in a])
    scale = np.abs(a) @ np.abs(b)
    errors = ExactProduct(a, b).find_relative_errors(exact)
    assert (errors * scale <= 1.01 * np.spacing(np.abs(exact)) / 2).all()
    off = exact + 1e-9 * scale
    assert ExactProduct(a, b).find_relative_errors(off) == pytest.approx(1e-9, rel=1e-5)


def _multiply_exactly(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Products as sums of floats, by Dekker's splitting."""
    products = x * y
    (x_high, x_low), (y_high, y_low) = _split(x), _split(y)
    rests = ((x_high * y_high - products) + x_high * y_low + x_low * y_high) + x_low * y_low
    return [*products, *rests]


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = x * (2**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def test_a_product_that_is_not_finite_has_no_error() -> None:
    a = np.ones((1, 1))
    assert np.isnan(ExactProduct(a, a).find_relative_errors(np.full((1, 1), np.nan))).all()


def test_means_are_geometric_and_whole() -> None:
    ratios = {(1, 1, 1): 2.0, (2, 2, 2): 8.0}
    assert find_mean(ratios, [(1, 1, 1), (2, 2, 2)]) == pytest.approx(4.0)
    assert find_mean(ratios, [(1, 1, 1), (3, 3, 3)]) is None


def test_the_best_entry_is_the_fastest_of_its_accuracy() -> None:
    rows = invent_results().rows
    strict = find_best(rows, "float32", ("strict",))
    assert {row.kernel for row in strict.values()} == {"bulk"}
    assert set(strict) == set(ALL_SHAPES)
    own = find_best(rows, "float32", ("strict", "float32"))
    assert {row.kernel for row in own.values()} == {"tensor"}
    halves = find_best(rows, "float16", ("library",))
    assert {row.kernel for row in halves.values()} == {"tensor"}, "cuBLAS is nobody's own"


def test_the_summary_has_means_of_entries_and_of_the_best() -> None:
    summary = summarize(invent_results().rows)
    (bulk,) = (entry for entry in summary["entries"] if entry["kernel"] == "bulk")
    assert bulk["suite"] == pytest.approx(2.0)
    assert bulk["squares"] == {"4096": 2.0, "8192": 2.0, "16384": 2.0}
    best = {(entry["dtype"], entry["of"]): entry["tail_heavy"] for entry in summary["best"]}
    assert best["float32", "strict"] == pytest.approx(2.0)
    assert best["float32", "own"] == pytest.approx(4.0)
    assert best["float64", "strict"] is None
    assert "best of strict float32" in format_summary(summary)


def test_a_summary_of_a_run_that_was_cut_has_no_means() -> None:
    summary = summarize([invent_row(*ENTRIES[1], shape=(1024, 1024, 1024))])
    assert summary["entries"][0]["suite"] is None
    assert format_summary(summary) == ""


def test_without_a_driver_there_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_LIBRARY", "libno-such-driver.so")
    found = Meter("GPU-0")
    assert not found.works
    assert found.read() == Reading(None, None)


NVML = r"""
#include <string.h>
typedef struct { unsigned field, scope; long long timestamp, latency; unsigned type, status;
                 union { unsigned u; unsigned long long ull; } value; } FieldValue;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    *device = (void *)0x1234567890;
    return strcmp(uuid, "GPU-1") ? 6 : 0;
}
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *clock) {
    *clock = device == (void *)0x1234567890 && type == 1 ? 1755 : 0;
    return 0;
}
int nvmlDeviceGetFieldValues(void *device, int count, FieldValue *value) {
    value->status = INSTANT;
    value->value.u = count == 1 && value->field == 186 ? 699500 : 0;
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *power) { *power = 512000; return 0; }
"""


@pytest.mark.parametrize(("status", "watts"), [(0, 699.5), (3, 512.0)])
def test_clock_and_power_are_read_from_the_driver(
    status: int, watts: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "libdriver.c"
    source.write_text(NVML.replace("INSTANT", str(status)), encoding="utf-8")
    library = build_library(source)
    monkeypatch.setattr(meter, "_LIBRARY", str(library))
    assert Meter("GPU-1").read() == Reading(1755.0, watts)
    assert not Meter("GPU-2").works


def test_reading_takes_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(meter.time, "perf_counter", lambda: now[0])
    slow = Meter("GPU-1")

    def read() -> Reading:
        now[0] += 0.02
        return Reading(1.0, 2.0)

    monkeypatch.setattr(slow, "read", read)
    assert slow.read_if_due() == Reading(1.0, 2.0)
    now[0] += 0.17
    assert slow.read_if_due() is None
    now[0] += 0.02
    assert slow.read_if_due() == Reading(1.0, 2.0)


# --- the choice of tile --------------------------------------------------------------------------


class Ranking:
    """What is called of nvMatmulHeuristics; it ranks given tiles in the order given."""

    NvMatmulHeuristicsMatmulLayout = SimpleNamespace(NN_ROW_MAJOR=0)
    NvMatmulHeuristicsNvidiaGpu = IntEnum("Gpu", ["H100_SXM", "H200_SXM", "RTX_4090"])

    def __init__(self, *tiles: tuple[int, int, int], gpu: object = None) -> None:
        self.gpu, self.tiles, self.asked = gpu, tiles, []

    def NvMatmulHeuristicsInterfaceEx(self, gpu: object) -> "Ranking":  # noqa: N802
        self.gpu = gpu
        return self

    def makeNvMatmulHeuristicsProblem(self, *size: int) -> tuple[int, ...]:  # noqa: N802
        return size

    def get(self, problem: tuple[int, ...], count: int, precision: str):
        self.asked.append((problem, precision))
        names = ("cta_tile_m", "cta_tile_n", "cta_tile_k")
        return [
            {"kernel": SimpleNamespace(**dict(zip(names, tile, strict=True)))}
            for tile in self.tiles[:count]
        ]


TENSOR = [
    spec
    for spec in list_kernels(dtype="float64", compute_capability=(9, 0))
    if spec.name == "tensor"
]


@pytest.mark.parametrize(
    ("tiles", "chosen"),
    [
        ([(256, 128, 32), (64, 64, 64), (128, 128, 32)], "64x64x32"),
        ([(128, 64, 16)], "128x64x16"),
        ([(128, 64, 64)], "128x64x32"),
        ([(256, 128, 32)], None),
    ],
)
def test_the_first_tile_of_a_ranking_that_is_ours_is_chosen(tiles, chosen: str | None) -> None:
    ranking = Ranking(*tiles)
    found = TileHeuristics(ranking, "H200").choose((5, 6, 7), TENSOR)
    assert (found and str(found.tile)) == chosen
    assert ranking.asked == [((5, 6, 7, 0), "DDD")]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA H100 80GB HBM3", "H100_SXM"),
        ("NVIDIA GeForce RTX 4090", "RTX_4090"),
        ("NVIDIA Abacus", None),
    ],
)
def test_the_gpu_is_found_among_those_that_are_known(
    name: str, known: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranking = Ranking()
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", ranking)
    assert (TileHeuristics.find(name) is None) == (known is None)
    assert getattr(ranking.gpu, "name", None) == known


def test_tiles_are_chosen_with_and_without_the_baseline() -> None:
    profile = build_preset_profile(PRESETS[0], "data sheet", 16)
    specs = list_kernels(compute_capability=(9, 0))
    shapes = ((4096, 4096, 4096), (333, 4099, 1021))
    alone = choose_tiles(specs, shapes, profile, None)
    assert {(x.kernel, x.dtype) for x in alone} == {
        *(("register", "float32"), ("register", "float64")),
        *(
            ("bulk", "float32"),
            ("tensor", "float64"),
            ("tensor", "float16"),
            ("tensor", "bfloat16"),
        ),
    }
    assert {x.heuristic for x in alone} == {None}
    ranked = choose_tiles(specs, shapes, profile, TileHeuristics(Ranking((128, 128, 32)), 0))
    assert [x.planned for x in ranked] == [x.planned for x in alone]
    tensor = {x.dtype: x.heuristic for x in ranked if x.kernel == "tensor"}
    assert tensor == {
        "float64": "128x128x32",
        "float16": "128x128x64",
        "bfloat16": "128x128x64",
    }


def test_the_baseline_ranks_tiles_of_ours_where_it_is_installed() -> None:
    pytest.importorskip("nvMatmulHeuristics")
    heuristics = TileHeuristics.find("NVIDIA H200")
    assert heuristics is not None
    assert heuristics.choose((4096, 4096, 4096), TENSOR) in TENSOR
