"""Options of a plan are one object in Python, and fields of a message in JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.options import ACCURACIES, NO_OPTIONS, PlanOptions

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


def test_missing_options_have_their_defaults():
    assert PlanOptions.read({}) == NO_OPTIONS
    assert PlanOptions.read({"f": 3, "kernel": "shared", "tile": "8"}) == PlanOptions(
        "shared", "8", 3
    )
