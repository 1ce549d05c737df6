"""Labels of jobs, by which they are found and cancelled, and a priority that is changed."""

import pytest

from tests.processes import wait_until
from tests.server import make_server_fixture
from tests.service.tenants.tenants import OWN_KEY, get_job, make_caller_fixture, store

server = make_server_fixture(api_key=OWN_KEY)
ada = make_caller_fixture("ada")
bob = make_caller_fixture("bob")


def post(client, *labels, size=2, **options):
    """Post a job that the engine computes; returns its id."""
    matrix = store(client, size)["id"]
    request = {"a": matrix, "b": matrix, "verify": True, "labels": list(labels), **options}
    answer = client.post("/v1/jobs", json=request)
    assert answer.status_code == 202, answer.text
    assert answer.json()["labels"] == answer.json()["request"]["labels"] == list(labels)
    return answer.json()["id"]


def list_ids(client, *labels, **query):
    params = [*(("label", one) for one in labels), *query.items()]
    answer = client.get("/v1/jobs", params=params)
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


def wait_end(client, job_id):
    return get_job(client, job_id, wait_seconds=60)


def test_jobs_are_found_by_all_of_their_labels(ada, bob):
    night, both, twice = post(ada, "night"), post(ada, "night", "größe 7"), post(ada, "x", "x")
    other = post(bob, "night")
    assert list_ids(ada, "night") == [both, night]
    assert list_ids(ada, "night", "größe 7") == [both]
    assert list_ids(ada, "x", "x") == [twice]
    assert list_ids(ada, "none") == []
    assert list_ids(bob, "night") == [other]
    for job_id in (night, both, twice):
        assert wait_end(ada, job_id)["labels"]
    assert list_ids(ada, "night", state="succeeded", limit="1") == [both]


def test_unfinished_jobs_are_cancelled_by_label(server, ada, bob):
    done = post(ada, "sweep")
    wait_end(ada, done)
    with server.engine_stopped():
        runs = post(ada, "sweep")
        wait_until(lambda: get_job(ada, runs)["state"] == "running")
        waits = [post(ada, "sweep", "second", a={"job": runs}) for _ in range(3)]
        needs = post(ada, a={"job": waits[0]})
        other, hers = post(bob, "sweep"), post(ada, "other")
        narrow = ada.delete("/v1/jobs", params=[("label", "second"), ("label", "gone")])
        assert (narrow.status_code, narrow.json()) == (200, {"cancelled": 0})
        answer = ada.delete("/v1/jobs", params={"label": "sweep"})
        assert (answer.status_code, answer.json()) == (200, {"cancelled": 4})
    assert {wait_end(ada, one)["state"] for one in (*waits, needs)} == {"cancelled"}
    # The engine may have computed it before it heard that.
    assert wait_end(ada, runs)["cancel_requested"]
    assert waits[0] in wait_end(ada, needs)["error"]["message"]
    assert wait_end(ada, done)["state"] == wait_end(ada, hers)["state"] == "succeeded"
    assert wait_end(bob, other)["state"] == "succeeded"
    assert ada.delete("/v1/jobs", params={"label": "sweep"}).json() == {"cancelled": 0}


def test_jobs_are_not_cancelled_without_a_label(ada):
    refused = ada.delete("/v1/jobs")
    assert (refused.status_code, refused.json()["field"]) == (422, "label")


@pytest.mark.parametrize(
    "labels", [["x"] * 9, [""], ["x" * 65], ["a\nb"], ["a\x00"], [3], "night", None]
)
def test_labels_that_cannot_be_kept_are_refused(ada, labels):
    matrix = store(ada)["id"]
    refused = ada.post("/v1/jobs", json={"a": matrix, "b": matrix, "labels": labels})
    assert refused.status_code == 422
    assert refused.json()["field"].startswith("labels")
    if isinstance(labels, list) and 3 not in labels:
        for method in ("GET", "DELETE"):
            answer = ada.request(method, "/v1/jobs", params=[("label", one) for one in labels])
            assert answer.status_code == 422
            assert answer.json()["field"].startswith("label")


def test_the_priority_of_a_queued_job_counts_at_once(server, ada):
    with server.engine_stopped():
        first = post(ada, size=600)
        wait_until(lambda: get_job(ada, first)["state"] == "running")
        jobs = [post(ada, size=600) for _ in range(6)]
        changed = ada.patch(f"/v1/jobs/{jobs[-1]}", json={"priority": 1000})
        assert (changed.status_code, changed.json()["priority"]) == (200, 1000)
        held = post(ada, size=600, a={"job": jobs[-1]})
        assert ada.patch(f"/v1/jobs/{held}", json={"priority": 900}).json()["priority"] == 900
        refused = ada.patch(f"/v1/jobs/{first}", json={"priority": 1})
        assert (refused.status_code, refused.json()["field"]) == (409, "state")
        assert refused.json()["value"] == "running"
    ended = [wait_end(ada, one) for one in (*jobs, held)]
    assert [job["priority"] for job in ended] == [0, 0, 0, 0, 0, 1000, 900]
    order = sorted(range(7), key=lambda number: ended[number]["started_at"])
    assert order[0] == 5
    assert order.index(6) < 6  # others began later, though they were posted earlier
    refused = ada.patch(f"/v1/jobs/{first}", json={"priority": 1})
    assert (refused.status_code, refused.json()["value"]) == (409, "succeeded")
    assert wait_end(ada, first)["priority"] == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"priority": 1001}, "priority"),
        ({"priority": "high"}, "priority"),
        ({}, "priority"),
        ({"priority": 1, "alpha": 2.0}, "alpha"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(ada, change, field):
    job_id = post(ada)
    refused = ada.patch(f"/v1/jobs/{job_id}", json=change)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert ada.patch("/v1/jobs/none", json={"priority": 1}).status_code == 404
