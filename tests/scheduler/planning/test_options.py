"""Options of a plan: bundled in the house, flat on the wire."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.options import ACCURACIES, NO_OPTIONS, PlanOptions, find_accuracy

OPTIONS = st.builds(
    PlanOptions,
    kernel=st.text(),
    tile=st.none() | st.text(),
    f=st.just("auto") | st.integers(0),
    accuracy=st.none() | st.sampled_from(ACCURACIES),
    sms=st.none() | st.integers(1),
    devices=st.sampled_from([None, "none", "0", "1,0"]),
)


@given(OPTIONS)
def test_options_survive_json_among_other_fields(options):
    document = json.loads(json.dumps({"a": "x", **options.as_dict(), "verify": True}))
    assert PlanOptions.read(document) == options


def test_what_a_document_lacks_is_left_to_the_planner():
    assert PlanOptions.read({}) == NO_OPTIONS
    assert PlanOptions.read({"f": 3, "kernel": "shared", "tile": "8"}) == PlanOptions(
        "shared", "8", 3
    )


def test_accuracies_are_found_by_name():
    assert [find_accuracy(name) for name in ACCURACIES] == list(ACCURACIES)
    with pytest.raises(PlanError, match="accuracy is 'exact'; it must be one of strict, library"):
        find_accuracy("exact")
