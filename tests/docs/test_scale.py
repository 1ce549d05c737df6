"""What docs/scale.md says of the model is what the model says today."""

import json

import pytest

from benchmarks.cluster.pages import RESULTS
from benchmarks.cluster.worth import (
    NETWORKS_GBITS,
    NODES,
    SHAPES,
    STREAM_SIDES,
    ask_stream,
    ask_worth,
)


def test_the_stored_rows_of_the_model_are_up_to_date() -> None:
    (file,) = RESULTS.glob("cluster-*.json")
    stored = json.loads(file.read_text(encoding="utf-8"))["worth"]
    assert len(stored) == len(SHAPES) * len(NETWORKS_GBITS)
    row = ask_worth(SHAPES[1], NETWORKS_GBITS[1])
    same = next(one for one in stored if (one["m"], one["network_gbits"]) == (row.m, 100))
    assert same["used"] == row.used
    for before, now in zip(same["seconds"], row.seconds, strict=True):
        assert abs(before / now - 1) < 0.02
    assert len(row.used) == len(NODES)


def test_the_stored_streams_of_the_model_are_up_to_date() -> None:
    (file,) = RESULTS.glob("cluster-*.json")
    stored = json.loads(file.read_text(encoding="utf-8"))["streams"]
    assert len(stored) == 2 * len(STREAM_SIDES) * len(NETWORKS_GBITS)
    for one in stored[::7]:
        now = ask_stream(one["side"], one["network_gbits"], b_stays=one["b_stays"])
        assert now.jobs_per_second == pytest.approx(one["jobs_per_second"], rel=0.02)
        assert now.jobs_per_second == sorted(now.jobs_per_second)
