"""Figures of several GPUs: each bound is told apart from what misses it."""

from dataclasses import replace

import pytest

from benchmarks.host.baselines.lineup import ONE_GPU, OURS, RELAYED
from benchmarks.host.results import HostResults
from benchmarks.host.several import judge_several
from benchmarks.host.suite import list_suite
from tests.benchmarks.host_figures import HEAD, invent_host_row

THROUGHPUT = {(OURS, 1): 250.0, (OURS, 2): 490.0, ("cupy-gpus", 1): 200.0, ("cupy-gpus", 2): 400.0}
SECONDS = {OURS: 0.01, ONE_GPU: 0.019, RELAYED: 0.0104, "cublasxt": 0.02, "cupy-gpus": 0.012}


def invent_results(*, predicted: float = 0.95, **changed_seconds: float) -> HostResults:
    """Rows of two GPUs from page-locked memory, at 0.95 of the limit but for the changes."""
    seconds = SECONDS | {name.replace("_", "-"): one for name, one in changed_seconds.items()}
    rows = [
        invent_host_row(
            name,
            **dict(zip("mnk", product.shape, strict=True)),
            dtype=product.dtype,
            group="suite",
            seconds=took,
            settings={"gpus": 2 if name == OURS else 1, "predicted_seconds": predicted * took},
        )
        for product in list_suite()
        for name, took in seconds.items()
    ]
    throughput = [
        {"baseline": name, "gpus": gpus, "products_per_second": rate}
        for (name, gpus), rate in THROUGHPUT.items()
    ]
    return HostResults(HEAD | {"gpus": 2, "throughput": throughput}, tuple(rows))


def test_figures_within_their_bounds_are_met():
    assert [one.met for one in judge_several(invent_results())] == [True] * 11


@pytest.mark.parametrize(
    ("side", "rate", "missed"),
    [((OURS, 2), 470.0, ["speed over one GPU"]), (("cupy-gpus", 2), 500.0, ["speed over CuPy's"])],
)
def test_products_at_once_that_miss_their_bound_are_told(monkeypatch, side, rate, missed):
    monkeypatch.setitem(THROUGHPUT, side, rate)
    found = [one.what for one in judge_several(invent_results()) if not one.met]
    assert all(word in what for word, what in zip(missed, found, strict=True))


def test_more_than_two_gpus_have_a_bound_of_their_own():
    two = invent_results(wavetrim=0.0108)  # 1.14 times the limit
    four = HostResults(two.document | {"gpus": 4}, two.rows)
    missed = [[one.what for one in judge_several(x) if not one.met] for x in (two, four)]
    assert ["limit" in what for what in missed[0]] == [True, True]
    assert missed[1] == []


@pytest.mark.parametrize(("gpus", "slower"), [(1, True), (2, False), (3, True)])
def test_products_are_compared_with_those_on_another_number_of_gpus(gpus, slower):
    """Two are faster than any other number; where the plan uses two, the same plan was measured."""
    results = invent_results(wavetrim_two_gpus=0.0096, wavetrim_three_gpus=0.011)
    uses = {OURS: gpus, "wavetrim-two-gpus": 2, "wavetrim-three-gpus": 3}
    rows = tuple(
        replace(row, settings=row.settings | {"gpus": uses.get(row.baseline, 1)})
        for row in results.rows
    )
    *_, found = judge_several(HostResults(results.document, rows))
    assert "slower than on fewer" in found.what
    assert found.count == len(list_suite())
    assert found.found == (len(list_suite()) if slower else 0)


def test_products_that_use_one_gpu_anyway_are_not_counted_as_slower():
    slower = invent_results(wavetrim_one_gpu=0.0096, wavetrim_relayed=0.005)
    alone = [replace(row, settings={"gpus": 1}) for row in slower.rows]
    judgements = judge_several(HostResults(slower.document, tuple(alone)))
    assert not any(one.met is False for one in judgements)


def test_a_file_without_throughput_has_the_other_bounds(monkeypatch):
    monkeypatch.setattr(f"{__name__}.THROUGHPUT", {})
    assert len(judge_several(invent_results())) == 9


def test_a_file_without_relays_has_the_other_bounds(monkeypatch):
    monkeypatch.delitem(SECONDS, RELAYED)
    assert [one.met for one in judge_several(invent_results())] == [True] * 9


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"wavetrim": 0.0118}, ["limit", "limit"]),
        ({"cublasxt": 0.0134}, ["cublasxt"]),
        ({"cupy_gpus": 0.0099}, ["cupy-gpus"]),
        ({"wavetrim_one_gpu": 0.0096, "wavetrim_relayed": 0.005}, ["slower than on fewer"]),
        ({"wavetrim_relayed": 0.0106}, ["largest speed"]),
        ({"wavetrim_relayed": 0.0124}, ["16384×16384×256", "largest speed"]),
        ({"predicted": 0.85}, ["predicted"]),
    ],
)
def test_a_figure_beyond_its_bound_is_told(changes, missed):
    found = [one.what for one in judge_several(invent_results(**changes)) if not one.met]
    assert len(found) == len(missed)
    assert all(word in what for word, what in zip(missed, found, strict=True))
