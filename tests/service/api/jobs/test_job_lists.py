"""A list of jobs in one POST: all are queued, or none."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from tests.matrices import make_matrix
from tests.refusals import expect_refusal


@pytest.fixture(scope="module")
def square(server):
    return server.upload(make_matrix(8, 8, "float32", seed=1))


def post(server, document, key=None):
    headers = {} if key is None else {"Idempotency-Key": key}
    return server.client.post("/v1/jobs", json=document, headers=headers)


def count_jobs(server):
    with closing(sqlite3.connect(server.data_dir / "wavetrim.db")) as database:
        return int(database.execute("SELECT count(*) FROM jobs").fetchone()[0])


def test_each_job_of_a_list_has_an_id_and_a_result(server, square):
    other = server.upload(make_matrix(8, 8, "float32", seed=2))
    answer = post(server, [{"a": square, "b": square}, {"a": square, "b": other, "alpha": 2.0}])
    assert answer.status_code == 202, answer.text
    first, second = answer.json()
    assert first["id"] != second["id"]
    arrays = [server.download(f"/v1/matrices/{one}/data") for one in (square, other)]
    for job, expected in ((first, arrays[0] @ arrays[0]), (second, 2 * arrays[0] @ arrays[1])):
        assert server.wait_job(job["id"])["state"] == "succeeded"
        found = server.download(f"/v1/jobs/{job['id']}/result")
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("bad", "status", "field"),
    [
        ({"a": "gone", "b": "gone"}, 404, "a"),
        ({"a": "gone"}, 422, "1.b"),
        ({"beta": 1.0}, 422, "c"),
        (3, 422, "1"),
    ],
)
def test_of_a_list_with_a_job_that_cannot_be_taken_none_is(server, square, bad, status, field):
    before = count_jobs(server)
    good = {"a": square, "b": square}
    if isinstance(bad, dict) and "beta" in bad:
        bad = good | bad
    expect_refusal(post(server, [good, bad, good]), status, field)
    assert count_jobs(server) == before


@pytest.mark.parametrize("count", [0, 1001])
def test_a_list_has_one_to_a_thousand_jobs(server, square, count):
    expect_refusal(post(server, [{"a": square, "b": square}] * count), 422, "body")


def test_a_thousand_jobs_in_one_post_all_end(server, square):
    options = {"storage": "memory", "kernel": "auto", "accuracy": "library", "f": "auto"}
    options |= {"alpha": 2.0, "priority": 1, "timeout_seconds": 600, "labels": list("abcdefgh")}
    answer = post(server, [{"a": square, "b": square, **options}] * 1000)
    assert answer.status_code == 202, answer.text
    ids = [one["id"] for one in answer.json()]
    assert len(set(ids)) == 1000
    with ThreadPoolExecutor(4) as pool:
        states = pool.map(lambda one: server.wait_job(one)["state"], ids)
        assert set(states) == {"succeeded"}


def test_a_list_that_is_posted_again_is_made_once(server, square):
    request = {"a": square, "b": square}
    first = post(server, [request, request | {"alpha": 3.0}], key="list")
    again = post(server, [request, request | {"alpha": 3.0}], key="list")
    assert (first.status_code, again.status_code) == (202, 200)
    ids = [[one["id"] for one in answer.json()] for answer in (first, again)]
    assert ids[0] == ids[1]
    for other in ([request], [request] * 2, [request] * 3, request):
        expect_refusal(post(server, other, key="list"), 422, "Idempotency-Key")
