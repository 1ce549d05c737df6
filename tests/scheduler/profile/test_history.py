"""Histories of runs correct predictions of similar products, in this and in later processes."""

import json
import math
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.limit import allow
from tests.scheduler.clock import Clock
from wavetrim.scheduler.model.corrections import RunClass
from wavetrim.scheduler.model.device_runs import KEPT_CLASSES, KEPT_RUNS
from wavetrim.scheduler.profile.history import SAVE_SECONDS, RunHistory

CLASS = RunClass("gpu from pinned memory", "", "copies in", "500x600x700 float32", 0.01)
OTHER = replace(CLASS, product="700x600x500 float32")


def make_history(path: Path | None = None, basis: str = "test") -> RunHistory:
    return RunHistory(path, basis)


def note(history: RunHistory, ratio: float, times: int, run_class: RunClass = CLASS) -> None:
    for _ in range(times):
        history.note(run_class, 0.01, 0.01 * ratio)


def test_a_class_that_never_ran_is_not_corrected() -> None:
    found = make_history().find(CLASS)
    assert (found.factor, found.runs) == (1.0, 0)


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.07, 3.0])
def test_the_factor_approaches_the_ratio_of_the_runs(ratio: float) -> None:
    history = make_history()
    errors = []
    for _ in range(KEPT_RUNS):
        note(history, ratio, 1)
        errors.append(abs(math.log(history.find(CLASS).factor / ratio)))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02 * abs(math.log(ratio))
    assert history.find(CLASS).runs == KEPT_RUNS


def test_an_outlier_among_runs_is_ignored() -> None:
    history = make_history()
    note(history, 1.1, 4)
    before = history.find(CLASS).factor
    note(history, 50.0, 1)
    assert history.find(CLASS).factor == pytest.approx(before, rel=0.03)


def test_a_single_run_far_from_its_neighbours_is_not_followed() -> None:
    history = make_history()
    for number in range(3):
        note(history, 1.1, 3, replace(CLASS, product=str(number)))
    note(history, 50.0, 1)
    assert history.find(CLASS).factor < 1.11
    note(history, 50.0, 1)
    note(history, 50.0, 1)
    assert history.find(CLASS).factor > 10


def test_runs_correct_a_team_as_if_nothing_were_calibrated() -> None:
    """A calibration runs products on one GPU, and few on several."""
    history = RunHistory(None, "profile", calibrated=True)
    alone = RunClass("gpu from pinned memory", bottleneck="copies in", product="8192x8192x8192")
    team = replace(alone, device=f"each of 2 gpus, {alone.device}")
    for _ in range(3):
        history.note(alone, 1.0, 1.2)
        history.note(team, 1.0, 1.2)
    assert history.find(alone).factor < 1.1
    assert history.find(team).factor > 1.15


def test_old_runs_are_forgotten() -> None:
    history = make_history()
    note(history, 2.0, 100)
    note(history, 1.0, KEPT_RUNS)
    assert history.find(CLASS).factor == 1.0


def test_a_new_product_is_corrected_by_those_of_similar_seconds() -> None:
    history = make_history()
    note(history, 1.5, 10)
    factors = []
    for times in (1.0, 1.5, 2.5, 3.9):
        found = history.find(replace(OTHER, seconds=CLASS.seconds * times))
        assert found.runs == 10
        factors.append(found.factor)
    assert 1.3 < factors[0] < 1.5
    assert factors == sorted(factors, reverse=True)
    far = history.find(replace(OTHER, seconds=CLASS.seconds * 5))
    assert (far.factor, far.runs) == (1.0, 0)


def test_small_products_do_not_correct_large_ones() -> None:
    """From pageable memory, a start of 0.25 ms doubles the time of the smallest products."""
    history = make_history()
    for number in range(20):
        note(history, 2.0, 3, replace(CLASS, product=str(number), seconds=0.00025))
    assert history.find(replace(CLASS, seconds=0.02)).factor == 1.0


def test_another_bottleneck_corrects_less_and_another_device_nothing() -> None:
    history = make_history()
    note(history, 2.0, 1)
    same, bound = history.find(OTHER), history.find(replace(OTHER, bottleneck="copies out"))
    assert 1 < bound.factor < same.factor
    assert history.find(replace(OTHER, device="gpu from pageable memory")).factor == 1.0


def test_runs_alone_correct_splits_but_not_the_reverse() -> None:
    alone, split = (replace(CLASS, beside=beside) for beside in ("", "cpu"))
    history = make_history()
    note(history, 2.0, 10, split)
    assert history.find(alone).factor == 1.0
    assert history.find(split).factor > 1.9
    history = make_history()
    note(history, 2.0, 10, alone)
    assert 1.1 < history.find(split).factor < history.find(alone).factor


def test_the_classes_that_ran_last_are_kept() -> None:
    history = make_history()
    for number in range(2 * KEPT_CLASSES):
        note(history, 2.0, 1, replace(CLASS, product=str(number)))
        note(history, 3.0, 1)
    kept = {one.run_class.product for one in history.list_all()}
    assert len(kept) == KEPT_CLASSES
    assert {CLASS.product, str(2 * KEPT_CLASSES - 1)} <= kept
    assert "0" not in kept


def test_the_next_process_reads_the_runs_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    first = make_history(path)
    note(first, 1.2, 5)
    first.save()
    again = make_history(path)
    assert again.find(CLASS) == first.find(CLASS)
    assert again.list_all() == first.list_all()


def test_runs_on_another_basis_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    first = make_history(path)
    note(first, 1.2, 5)
    first.save()
    assert make_history(path, basis="calibrated since").find(CLASS).runs == 0


def test_processes_that_share_a_file_add_their_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    one, other = make_history(path), make_history(path)
    note(one, 1.2, 3)
    one.save()
    note(other, 1.2, 4, OTHER)
    other.save()
    third = make_history(path)
    assert {one.run_class: one.runs for one in third.list_all()} == {CLASS: 3, OTHER: 4}
    assert [one.runs for one in third.list_factors()] == [7]


def test_a_reader_sees_new_runs_after_a_second(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "runs.json"
    reader = RunHistory(path, "test", clock)
    writer = make_history(path)
    note(writer, 1.2, 3)
    writer.save()
    assert reader.find(CLASS).runs == 0
    clock.now += 1
    assert reader.find(CLASS).runs == 3


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format": 2, "basis": "test"}'])
def test_an_unreadable_file_is_ignored_and_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "runs.json"
    path.write_text(content)
    history = make_history(path)
    assert history.find(CLASS).runs == 0
    note(history, 1.2, 1)
    history.save()
    assert json.loads(path.read_text())["basis"] == "test"


def describe(**changes: object) -> list[object]:
    return [*{**asdict(CLASS), **changes}.values()]


@pytest.mark.parametrize(
    "entry",
    [
        *([describe(seconds=value), [0.1]] for value in (0, -1.0, math.nan, math.inf, "x", None)),
        *([describe(device=value), [0.1]] for value in (None, [], 1, {})),
        [describe(), [0.1, 1e4]],
        *([describe(), [value]] for value in (-1e4, math.nan, math.inf, 10**400, "x", None, [])),
        [describe(), None],
        [describe()[:4], [0.1]],
        "text",
        None,
    ],
    ids=lambda entry: str(entry)[-24:],
)
def test_damaged_runs_are_ignored_and_the_others_kept(tmp_path: Path, entry: object) -> None:
    path = tmp_path / "runs.json"
    sound = [describe(product=OTHER.product), [0.5, 0.5]]
    document = {"format": 2, "basis": "test", "runs": [entry, sound]}
    path.write_text(json.dumps(document))
    history = make_history(path)
    assert {one.run_class: one.runs for one in history.list_all()} == {OTHER: 2}
    assert 1 < history.find(CLASS).factor < math.exp(0.5)
    note(history, 1.2, 1)
    history.save()
    again = make_history(path)
    assert {one.run_class: one.runs for one in again.list_all()} == {OTHER: 2, CLASS: 1}


def test_a_deeply_nested_file_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(100_000 * "[")
    assert make_history(path).find(CLASS).runs == 0


def test_a_run_during_which_the_machine_slept_is_ignored() -> None:
    history = make_history()
    history.note(CLASS, 1e-5, 3600.0)
    assert history.list_all() == []


def test_without_its_folder_runs_are_kept_in_memory_only(tmp_path: Path) -> None:
    history = make_history(tmp_path / "missing" / "runs.json")
    note(history, 1.2, 2)
    history.save()
    assert history.find(CLASS).runs == 2
    assert not (tmp_path / "missing").exists()


def test_a_folder_that_cannot_be_looked_into_is_as_none(tmp_path: Path) -> None:
    history = make_history(tmp_path / ("x" * 300) / "runs.json")
    note(history, 1.2, 2)
    history.save()
    assert history.find(CLASS).runs == 2


def test_runs_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    history = make_history(path)
    lock = tmp_path / "runs.lock"
    lock.mkdir()
    note(history, 1.2, 2)
    history.save()
    assert not path.exists()
    other = make_history(path)
    lock.rmdir()
    note(other, 1.2, 1, OTHER)
    other.save()
    history.save()
    found = make_history(path).list_all()
    assert {one.run_class: one.runs for one in found} == {CLASS: 2, OTHER: 1}


def test_save_writes_runs_that_are_not_due_yet(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "runs.json"
    history = RunHistory(path, "test", clock)
    note(history, 1.2, 1)
    clock.now = SAVE_SECONDS / 2
    note(history, 1.2, 1)
    history.save()
    assert make_history(path).find(CLASS).runs == 2


def test_the_correction_of_a_known_shape_is_found_within_a_millisecond() -> None:
    history = make_history()
    for number in range(KEPT_CLASSES):
        note(history, 1.1, 1, replace(CLASS, product=str(number)))
    begun = time.perf_counter()
    for _ in range(200):
        note(history, 1.1, 1)
        history.find(CLASS)
    assert (time.perf_counter() - begun) / 200 < allow(1e-3)
