"""Jobs whose operands are results of other jobs, over HTTP on a real server with keys."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest

from tests.limit import allow
from tests.matrices import make_matrix
from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import decode_npy, make_server_fixture
from tests.service.tenants.tenants import OWN_KEY, get_job, make_caller_fixture, upload

A, B = (make_matrix(20, 20, "float64", seed=seed) for seed in (1, 2))
COLUMN, ROW = np.ones((400, 1)), np.ones((1, 400))
"""Their product is larger than all that the service stores: a job of it fails."""


server = make_server_fixture(api_key=OWN_KEY, max_storage_bytes="1MB", max_queued_jobs=20)
ada = make_caller_fixture("ada")
bob = make_caller_fixture("bob")


@pytest.fixture(scope="module")
def stored(ada):
    """Ids of ada's matrices."""
    arrays = {"a": A, "b": B, "column": COLUMN, "row": ROW, "whole": np.ones((20, 20), np.int32)}
    return {name: upload(ada, array) for name, array in arrays.items()}


def post(client, **request):
    answer = client.post("/v1/jobs", json=request)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def result_of(job_id):
    return {"job": job_id}


def expect_product(client, job_id, expected):
    job = get_job(client, job_id, wait_seconds=60)
    assert (job["state"], job["error"]) == ("succeeded", None)
    found = decode_npy(client.get(f"/v1/jobs/{job_id}/result").content)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def expect_ended(client, job_id, state, *words):
    """A job has ended with another one, whose end is told."""
    job = get_job(client, job_id, wait_seconds=60)
    assert (job["state"], job["result"], job["started_at"]) == (state, None, None)
    assert job["finished_at"] >= job["created_at"]
    assert (job["error"]["kind"], job["error"]["attempts"]) == ("operand", 0)
    for word in words:
        assert word in job["error"]["message"], job["error"]


def test_a_chain_of_four_and_a_diamond_are_computed_in_turn(server, ada, stored):
    a, b = stored["a"], stored["b"]
    with server.engine_stopped():
        first = post(ada, a=a, b=b, verify=True)
        left = post(ada, a=result_of(first), b=a, verify=True)
        right = post(ada, a=b, b=result_of(first), storage="memory")
        both = post(ada, a=result_of(left), b=result_of(right), c=result_of(first), beta=1)
        last = post(ada, a=result_of(both), b=result_of(both))
        states = [get_job(ada, one)["state"] for one in (left, right, both, last)]
        assert states == ["queued"] * 4
        assert get_job(ada, both)["request"]["a"] == result_of(left)
    product = A @ B
    expected = (product @ A) @ (B @ product) + product
    expect_product(ada, left, product @ A)
    expect_product(ada, right, B @ product)
    expect_product(ada, both, expected)
    expect_product(ada, last, expected @ expected)
    times = [get_job(ada, one) for one in (first, left, both, last)]
    for before, after in pairwise(times):
        assert before["finished_at"] <= after["started_at"]


def test_the_result_of_a_job_that_has_succeeded_is_used(ada, stored):
    first = post(ada, a=stored["a"], b=stored["b"])
    expect_product(ada, first, A @ B)
    expect_product(ada, post(ada, a=result_of(first), b=result_of(first)), A @ B @ A @ B)
    assert ada.delete(f"/v1/matrices/{get_job(ada, first)['result']}").status_code == 204
    refused = ada.post("/v1/jobs", json={"a": stored["a"], "b": result_of(first)})
    assert (refused.status_code, refused.json()["field"]) == (404, "b")


def test_a_post_is_checked_by_the_shape_and_type_that_the_result_will_have(server, ada, stored):
    with server.engine_stopped():
        tall = post(ada, a=stored["a"], b=upload(ada, np.ones((20, 3))), verify=True)
        cases = [
            ({"a": result_of(tall), "b": stored["a"]}, "shape of b", "(20, 20)"),
            ({"a": stored["a"], "b": stored["a"], "c": result_of(tall)}, "shape of c", "(20, 3)"),
            ({"a": stored["whole"], "b": result_of(tall)}, "dtype of b", "float64"),
            ({"a": stored["a"], "b": result_of(tall), "f": 21}, "f", "21"),
        ]
        for request, field, value in cases:
            refused = expect_refusal(ada.post("/v1/jobs", json=request), 422, field)
            assert value in refused["detail"]
        ada.delete(f"/v1/jobs/{tall}")


@pytest.mark.parametrize(
    "operand", [{"job": 3}, {"job": "../x"}, {"job": "a", "b": 1}, {}, {"matrix": "a"}, 3, [1]]
)
def test_an_operand_that_is_neither_matrix_nor_job_is_refused(ada, stored, operand):
    refused = ada.post("/v1/jobs", json={"a": stored["a"], "b": operand})
    limit = 'the id of a matrix, or {"job": the id of a job}'
    assert len(expect_refusal(refused, 422, "b", limit=limit)["errors"]) == 1


def test_the_job_of_another_caller_is_not_found(server, ada, bob, stored):
    with server.engine_stopped():
        hers = post(ada, a=stored["a"], b=stored["b"], verify=True)
        own = upload(bob, A)
        answers = [
            bob.post("/v1/jobs", json={"a": result_of(one), "b": own}) for one in (hers, "0" * 32)
        ]
        for answer, named in zip(answers, (hers, "0" * 32), strict=True):
            told = expect_refusal(answer, 404, "a")["detail"]
            assert told == f"a names job {named!r}, which does not exist"
        assert bob.patch(f"/v1/jobs/{hers}", json={"priority": 1}).status_code == 404
        ada.delete(f"/v1/jobs/{hers}")


def test_what_needs_a_job_fails_with_it(server, ada, stored):
    column, row = stored["column"], stored["row"]
    with server.engine_stopped():
        before = post(ada, a=column, b=upload(ada, np.ones((1, 1))), verify=True)
        failing = post(ada, a=result_of(before), b=row)
        next_one = post(ada, a=result_of(failing), b=column)
        last = post(ada, a=row, b=result_of(next_one))
        free = post(ada, a=row, b=column, verify=True)
    expect_ended(ada, next_one, "failed", failing, "max_storage_bytes")
    expect_ended(ada, last, "failed", next_one, failing, "max_storage_bytes")
    assert get_job(ada, failing, wait_seconds=60)["error"]["kind"] == "storage"
    expect_product(ada, free, [[400.0]])
    refused = ada.post("/v1/jobs", json={"a": result_of(failing), "b": column})
    limit = "a job that waits, runs or has succeeded"
    told = expect_refusal(refused, 409, "a", value=failing, limit=limit)["detail"]
    assert "failed: " in told
    assert "max_storage_bytes" in told


def test_what_needs_a_job_is_cancelled_with_it(server, ada, stored):
    a, b = stored["a"], stored["b"]
    with server.engine_stopped():
        before = post(ada, a=a, b=b, verify=True)
        first = post(ada, a=result_of(before), b=b)
        second = post(ada, a=result_of(first), b=a)
        third = post(ada, a=result_of(second), b=result_of(before))
        assert ada.delete(f"/v1/jobs/{first}").status_code == 200
        assert get_job(ada, first)["error"] is None
    expect_ended(ada, second, "cancelled", f"needs the result of job {first}, which was cancelled")
    expect_ended(ada, third, "cancelled", first, "which was cancelled")
    expect_product(ada, before, A @ B)
    refused = ada.post("/v1/jobs", json={"a": a, "b": result_of(second)})
    assert (refused.status_code, refused.json()["field"]) == (409, "b")


def test_what_needs_a_job_is_cancelled_with_it_while_that_runs(start_server):
    server = start_server()
    slow = server.upload(make_matrix(2000, 2000, "int64", seed=1))
    first = post(server.client, a=slow, b=slow)
    second = post(server.client, a=result_of(first), b=slow)
    third = post(server.client, a=result_of(second), b=slow)
    wait_until(lambda: get_job(server.client, first)["progress"] > 0, 60)
    assert server.client.delete(f"/v1/jobs/{first}").status_code == 202
    assert server.wait_job(first)["state"] == "cancelled"
    expect_ended(server.client, second, "cancelled", f"job {first}, which was cancelled")
    expect_ended(server.client, third, "cancelled", second, first)
    assert server.client.get("/v1/jobs?state=queued").json()["jobs"] == []


def test_a_job_that_is_cancelled_leaves_those_that_it_needs(server, ada, stored):
    with server.engine_stopped():
        first = post(ada, a=stored["a"], b=stored["b"], verify=True)
        second = post(ada, a=result_of(first), b=stored["a"])
        answer = ada.delete(f"/v1/jobs/{second}")
        assert (answer.status_code, answer.json()["error"]) == (200, None)
    expect_product(ada, first, A @ B)
    assert get_job(ada, second)["state"] == "cancelled"


def test_a_job_that_waits_for_others_says_when_and_is_held_to_its_deadline(server, ada, stored):
    a, b = stored["a"], stored["b"]
    with server.engine_stopped():
        before = post(ada, a=a, b=b, verify=True)
        held = post(ada, a=result_of(before), b=b)
        soon = (datetime.now(UTC) + timedelta(seconds=allow(2))).isoformat()
        due = post(ada, a=result_of(held), b=b, deadline=soon)
        told = [get_job(ada, one)["expected"] for one in (before, held, due)]
        assert [one["position"] for one in told[1:]] == [1, 2]
        assert told[2]["reason"].startswith("waits for the results of 2 jobs")
        assert told[0]["ends_at"] <= told[1]["ends_at"] < told[2]["ends_at"]
        ended = get_job(ada, due, wait_seconds=60)
        assert (ended["state"], ended["error"]["kind"]) == ("failed", "deadline")
        assert ended["expected"] is None
    expect_product(ada, held, A @ B @ B)


def test_a_result_is_kept_while_a_job_waits_for_others_too(server, ada, stored):
    with server.engine_stopped():
        done = post(ada, a=stored["a"], b=stored["b"])  # so small that no engine is needed
        result = get_job(ada, done, wait_seconds=60)["result"]
        other = post(ada, a=stored["a"], b=stored["b"], verify=True)
        both = post(ada, a=result_of(done), b=result_of(other))
        assert both in expect_refusal(ada.delete(f"/v1/matrices/{result}"), 409)["detail"]
    expect_product(ada, both, A @ B @ A @ B)
    assert ada.delete(f"/v1/matrices/{result}").status_code == 204


def test_jobs_that_wait_for_others_count_in_the_queue(server, ada, bob):
    own = upload(bob, A)
    with server.engine_stopped():
        first = post(bob, a=own, b=own, verify=True, labels=["limit"])
        wait_until(lambda: get_job(bob, first)["state"] == "running")
        request = {"a": result_of(first), "b": own, "labels": ["limit"]}
        assert bob.post("/v1/jobs", json=[request] * 20).status_code == 202
        refused = bob.post("/v1/jobs", json=request)
        assert (refused.status_code, refused.json()["field"]) == (429, "queued jobs")
        assert bob.get("/v1/me").json()["queued_jobs"]["used"] == 20
        assert bob.delete("/v1/jobs", params={"label": "limit"}).json() == {"cancelled": 21}
        assert bob.get("/v1/me").json()["queued_jobs"]["used"] == 0
        again = post(bob, a=own, b=own, verify=True)
        assert bob.delete(f"/v1/jobs/{again}").status_code in (200, 202)  # it may be sent already


def test_a_repeated_post_gets_its_job_though_the_one_it_needs_has_failed(ada, stored):
    failing = post(ada, a=stored["column"], b=stored["row"], verify=True)
    request, headers = {"a": result_of(failing), "b": stored["column"]}, {"Idempotency-Key": "one"}
    first = ada.post("/v1/jobs", json=request, headers=headers)
    if first.status_code == 202:  # it was posted before the other one has failed
        get_job(ada, failing, wait_seconds=60)
        again = ada.post("/v1/jobs", json=request, headers=headers)
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    else:
        assert first.status_code == 409


def test_followers_hear_of_an_end_with_another_job(server, ada, stored):
    with server.engine_stopped():
        before = post(ada, a=stored["a"], b=stored["b"], verify=True)
        first = post(ada, a=result_of(before), b=stored["b"])
        second = post(ada, a=result_of(first), b=stored["a"])
        with ada.stream("GET", f"/v1/jobs/{second}/events") as stream:
            lines = stream.iter_lines()
            assert any('"state":"queued"' in line for line in lines)
            ada.delete(f"/v1/jobs/{first}")
            assert any('"state":"cancelled"' in line and first in line for line in lines)


def test_a_chain_outlives_kills_of_the_service(start_server):
    server = start_server()
    slow = make_matrix(700, 700, "int64", seed=1)
    a = server.upload(slow)
    first = post(server.client, a=a, b=a)
    left = post(server.client, a=result_of(first), b=a)
    right = post(server.client, a=a, b=result_of(first))
    last = post(server.client, a=result_of(left), b=result_of(right))
    ids = {first, left, right, last}
    for waited in (first, left, last):
        wait_until(lambda: get_job(server.client, waited)["state"] != "queued", 60)  # noqa: B023
        server.kill()
        server.restart()
    done = server.wait_job(last)
    assert (done["state"], done["error"]) == ("succeeded", None)
    square = slow @ slow
    product = server.download(f"/v1/jobs/{last}/result")
    assert np.array_equal(product[::90], (square[::90] @ slow) @ (slow @ square))
    listed = server.client.get("/v1/jobs").json()["jobs"]
    assert {job["id"] for job in listed} == ids
    assert {job["state"] for job in listed} == {"succeeded"}
    results = {job["result"] for job in listed}
    assert len(results) == 4
    assert server.list_matrix_files() == {f"{name}.npy" for name in results | {a}}
