"""The benchmark of kernels: who takes part, for how long, and what is made of it."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kernels.contest import (
    AHEAD_SECONDS,
    LEAST_TURNS,
    MOST_LAUNCHES,
    MOST_SECONDS,
    admit_all,
    count_launches,
    run_contest,
)
from benchmarks.kernels.rows import Score, describe_row, make_rows, read_results
from benchmarks.kernels.suite import FEW_TURNS, LADDER_SHAPE, TURNS, pick_kernels
from tests.environment import ROOT
from tests.limit import allow
from wavetrim.kernels.catalog import find_kernel, list_kernels
from wavetrim.kernels.errors import DeviceFailure, OperandError
from wavetrim.kernels.spec import KernelSpec
from wavetrim.kernels.timing.seconds import Burst

HOPPER = list_kernels(dtype="float32", compute_capability=(9, 0))


def test_textbook_kernels_take_part_with_one_tile_at_squares_up_to_the_ladders() -> None:
    textbook = {"naive", "simple", "coalesced", "shared"}
    at_ladder = pick_kernels(HOPPER, LADDER_SHAPE)
    assert {spec for spec in at_ladder if spec.name in textbook} == {
        find_kernel(name, "float32") for name in textbook
    }
    turns = {spec.name: turns for spec, turns in at_ladder.items()}
    assert turns["naive"] == turns["shared"] == FEW_TURNS
    assert turns["register"] == turns["bulk"] == turns["tensor"] == turns["cublas"] == TURNS
    for shape in ((4224, 4224, 4224), (64, 4096, 4096)):
        names = {spec.name for spec in pick_kernels(HOPPER, shape)}
        assert names == {"register", "bulk", "tensor", "cublas"}


class Simulated:
    """A contest whose turns take given seconds, or at which kernels fail."""

    def __init__(self, **by_kernel: float | Exception) -> None:
        self.by_kernel = by_kernel

    def admit(self, spec: KernelSpec) -> Score:
        if isinstance(found := self.by_kernel[spec.name], Exception):
            raise found
        return Score(1)

    def measure(self, spec: KernelSpec, score: Score) -> None:
        score.seconds.append(self.by_kernel[spec.name])


BULK, CUBLAS = (find_kernel(name, "float32") for name in ("bulk", "cublas"))


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
    scores = admit_all(contest, (BULK, CUBLAS), pytest.fail)  # type: ignore[arg-type]
    run_contest(contest, scores, dict(zip(scores, wanted, strict=True)), until)  # type: ignore[arg-type]
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


def test_rows_compare_with_cublas_and_there_are_none_without() -> None:
    scores = {BULK: Score(1, [2.0, 4.0, 3.0]), CUBLAS: Score(2, [6.0, 6.0, 6.0])}
    row, peer = make_rows((10**4, 10**4, 10**4), scores, 132)
    assert (row.kernel, row.sms, row.turns, row.median_seconds) == ("bulk", 132, 3, 3.0)
    assert row.tflops == pytest.approx(2 / 3)
    assert (row.ratio_to_cublas, peer.ratio_to_cublas) == (2.0, 1.0)
    assert row.spread == pytest.approx(2 / 3)
    assert "2.000 of cuBLAS" in describe_row(row)
    assert make_rows((8, 8, 8), {BULK: scores[BULK]}, 132) == []


def test_a_kernel_that_fails_leaves_the_others_unless_nothing_works_any_more() -> None:
    refused: list[tuple[str, str]] = []

    def admit(failure: Exception) -> dict[KernelSpec, Score]:
        contest = Simulated(bulk=failure, cublas=1.0)
        refuse = lambda spec, why: refused.append((spec.label, why))  # noqa: E731
        return admit_all(contest, (BULK, CUBLAS), refuse)  # type: ignore[arg-type]

    assert list(admit(OperandError("too small"))) == [CUBLAS]
    assert refused == [("bulk 128x256x16 float32", "too small")]
    with pytest.raises(DeviceFailure):
        admit(DeviceFailure("illegal address", poisoned=True))


@pytest.mark.gpu
def test_a_run_writes_rows_of_kernels_beside_cublas(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", "--shapes", "512x512x512", "--out", tmp_path],
        cwd=ROOT, capture_output=True, text=True, timeout=allow(200), check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (results,) = read_results(tmp_path)
    assert results.document["left_out"] == []
    assert {"naive", "register", "cublas"} <= {row.kernel for row in results.rows}
    assert all(row.tflops > 0 and row.turns >= LEAST_TURNS for row in results.rows)
