"""What runs tell of predictions: one factor for each kind of run."""

from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.clock import Clock
from wavetrim.scheduler.profile.corrections import (
    FORGOTTEN_SECONDS,
    KEPT_RUNS,
    LEAST_RUNS,
    UNCORRECTED,
    Corrections,
)


def note(corrections: Corrections, *ratios: float, kind: str = "GPU") -> None:
    for ratio in ratios:
        corrections.note(kind, 0.01, 0.01 * ratio)


def test_a_few_runs_do_not_count() -> None:
    corrections = Corrections()
    note(corrections, *[3.0] * (LEAST_RUNS - 1))
    assert corrections.find("GPU") == UNCORRECTED
    note(corrections, 3.0)
    assert corrections.find("GPU").runs == LEAST_RUNS
    assert corrections.find("CPU") == UNCORRECTED


def test_the_median_of_the_newest_runs_is_told() -> None:
    corrections = Corrections()
    note(corrections, *[9.0] * 40, *[1.1] * KEPT_RUNS)
    assert corrections.find("GPU").reported == 1.1
    assert corrections.find("GPU").runs == KEPT_RUNS


@given(st.lists(st.floats(0.85, 1.15), min_size=1, max_size=40))
def test_small_errors_are_told_and_move_no_choice(ratios: list[float]) -> None:
    corrections = Corrections()
    note(corrections, *ratios)
    assert corrections.find("GPU").deciding == 1.0
    assert corrections.version == 0


def test_a_busy_machine_moves_choices_until_it_is_quiet_again() -> None:
    corrections = Corrections()
    note(corrections, *[2.0] * KEPT_RUNS)
    assert corrections.find("GPU").deciding == 2.0
    assert corrections.version == 1
    note(corrections, *[1.0] * KEPT_RUNS)
    assert corrections.find("GPU").deciding == 1.0
    assert corrections.version == 2


def test_a_kind_of_run_that_is_no_longer_chosen_is_tried_again() -> None:
    clock = Clock()
    corrections = Corrections(clock)
    note(corrections, 2.0, 2.0, 2.0)
    clock.now += FORGOTTEN_SECONDS + 1
    note(corrections, 1.0, kind="CPU")
    assert corrections.find("GPU") == UNCORRECTED
    assert corrections.version == 2
