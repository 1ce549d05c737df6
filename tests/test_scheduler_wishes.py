"""Wishes: bundled in the house, flat on the wire."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.wishes import ACCURACIES, NO_WISHES, Wishes, find_accuracy

WISHES = st.builds(
    Wishes,
    kernel=st.text(),
    tile=st.none() | st.text(),
    f=st.just("auto") | st.integers(0),
    accuracy=st.none() | st.sampled_from(ACCURACIES),
    sms=st.none() | st.integers(1),
)


@given(WISHES)
def test_wishes_survive_json_among_other_fields(wishes):
    document = json.loads(json.dumps({"a": "x", **wishes.as_dict(), "verify": True}))
    assert Wishes.read(document) == wishes


def test_what_a_document_lacks_is_left_to_the_planner():
    assert Wishes.read({}) == NO_WISHES
    assert Wishes.read({"f": 3, "kernel": "shared", "tile": "8"}) == Wishes("shared", "8", 3)


def test_accuracies_are_found_by_name():
    assert [find_accuracy(name) for name in ACCURACIES] == list(ACCURACIES)
    with pytest.raises(PlanError, match="accuracy is 'exact'; it must be one of strict, library"):
        find_accuracy("exact")
