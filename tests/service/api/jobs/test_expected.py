"""When a job begins and ends, over HTTP: told, followed, and held to deadlines."""

import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tests.limit import allow
from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import RunningServer, make_server_fixture
from tests.service.tenants.tenants import OWN_KEY, make_caller_fixture, upload

SLOW = np.ones((700, 700), np.int64)
"""Its square takes some tenths of a second: int64 has no fast product."""

SPAN = {"position", "starts_at", "starts_between", "ends_at", "ends_between", "reason"}


server = make_server_fixture(api_key=OWN_KEY, job_timeout_seconds=600)
ada = make_caller_fixture("ada")
bob = make_caller_fixture("bob")


def post(client, a, **options):
    answer = client.post("/v1/jobs", json={"a": a, "b": a, "storage": "memory", **options})
    assert answer.status_code == 202, answer.text
    return answer.json()


def get(client, job, **query):
    return client.get(f"/v1/jobs/{job['id']}", params=query).json()


def cancel(client, jobs):
    for one in jobs:
        client.delete(f"/v1/jobs/{one['id']}")
    for one in jobs:
        get(client, one, wait_seconds=30)


def begin(client, a):
    """A job that runs."""
    job = post(client, a)
    wait_until(lambda: get(client, job)["state"] == "running")
    return job


def read(text):
    return datetime.fromisoformat(text).timestamp()


def later(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_lone_job_is_next_and_says_so(ada):
    job = post(ada, upload(ada, SLOW))
    expected = job["expected"]
    assert set(expected) == SPAN
    assert expected["position"] == 0
    assert expected["reason"].startswith("is next on the CPU")
    for at, between in (("starts_at", "starts_between"), ("ends_at", "ends_between")):
        low, high = map(read, expected[between])
        assert low <= read(expected[at]) <= high
    assert read(expected["starts_at"]) <= read(expected["ends_at"])
    ended = get(ada, job, wait_seconds=60)
    assert ended["state"] == "succeeded"
    assert ended["expected"] is None


def test_a_new_service_says_that_its_intervals_are_wide(start_server):
    running = start_server()
    expected = post(running.client, upload(running.client, SLOW))["expected"]
    assert expected["reason"].endswith(
        "; few jobs have ended since the service started, so the intervals are wide"
    )
    low, high = map(read, expected["ends_between"])
    assert high - low > 3 * (read(expected["ends_at"]) - low)


def test_a_lone_job_begins_as_late_as_those_before_it(start_server):
    running = start_server()
    a, leads = upload(running.client, SLOW[:300, :300]), []
    for _ in range(9):
        job = post(running.client, a)
        told = read(job["expected"]["starts_at"]) - read(job["created_at"])
        ended = get(running.client, job, wait_seconds=60)
        leads.append(read(ended["started_at"]) - read(ended["created_at"]))
    assert min(leads[:-1]) / 2 <= told <= 2 * max(leads)


def test_jobs_behind_others_have_their_place_and_later_ends(ada):
    slow = upload(ada, SLOW)
    first = begin(ada, slow)
    jobs = [post(ada, slow) for _ in range(5)]
    told = [one["expected"] for one in jobs]
    assert [one["position"] for one in told] == [0, 1, 2, 3, 4]
    assert told[4]["reason"].startswith("waits for 5 products of yours on the CPU")
    assert [one["ends_at"] for one in told] == sorted(one["ends_at"] for one in told)
    runs = get(ada, first)
    if runs["state"] == "running":
        assert runs["expected"]["reason"].startswith("runs on the CPU")
        assert runs["expected"]["starts_at"] == runs["started_at"]
    listed = {one["id"]: one for one in ada.get("/v1/jobs").json()["jobs"]}
    assert listed[jobs[4]["id"]]["expected"]["position"] <= 4
    cancel(ada, [first, *jobs])


def test_a_short_job_is_told_that_it_goes_before_long_ones(ada):
    slow = upload(ada, np.ones((1000, 1000), np.int64))
    long = [begin(ada, slow), *(post(ada, slow) for _ in range(4))]
    short = post(ada, upload(ada, np.ones((200, 200), np.int64)))
    assert short["expected"]["position"] <= 1, "one may have waited for so long that it is before"
    assert long[4]["expected"]["position"] >= 2
    smallest = post(ada, upload(ada, np.ones((16, 16))))
    assert smallest["expected"]["position"] == 0, "the service computes it itself"
    cancel(ada, [*long, short])
    assert get(ada, smallest, wait_seconds=60)["state"] == "succeeded"


def test_of_others_a_caller_sees_numbers_and_devices_only(ada, bob):
    slow = upload(ada, SLOW)
    flood = [begin(ada, slow), *(post(ada, slow) for _ in range(6))]
    job = post(bob, upload(bob, SLOW))
    expected = job["expected"]
    assert expected["reason"].startswith("waits for ")
    assert " of other callers on the CPU" in expected["reason"]
    assert "yours" not in expected["reason"]
    assert expected["position"] <= 2, "it waits for its share, not for all"
    assert not any(word in expected["reason"] for word in ("ada", slow, "700", "int64"))
    planned = bob.get("/v1/plan?m=700&n=700&k=700&dtype=int64&queued=true").json()
    assert planned["expected"]["position"] >= 1, "bob's own is before"
    assert "ada" not in str(planned["expected"])
    cancel(ada, flood)
    get(bob, job, wait_seconds=60)


def test_a_plan_says_when_the_product_would_end_as_a_job(ada):
    query = "/v1/plan?m=700&n=700&k=700&dtype=int64"
    assert "expected" not in ada.get(query).json()
    free = ada.get(f"{query}&queued=true").json()["expected"]
    assert free["reason"].startswith("is next on the CPU")
    slow = upload(ada, SLOW)
    jobs = [begin(ada, slow), *(post(ada, slow) for _ in range(5))]
    behind = ada.get(f"{query}&queued=true").json()["expected"]
    assert behind["position"] >= 3
    expect_refusal(ada.get(f"{query}&queued=true&device=H200"), 422, "queued")
    cancel(ada, jobs)


def test_followers_hear_that_the_queue_moves(ada):
    slow = upload(ada, SLOW)
    jobs = [begin(ada, slow), *(post(ada, slow) for _ in range(8))]
    positions, until = [], time.monotonic() + allow(20)
    with ada.stream("GET", f"/v1/jobs/{jobs[-1]['id']}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data: ") and '"state":"queued"' in line:
                positions.append(line.split('"position":')[1].split(",")[0])
            if len(set(positions)) > 1 or time.monotonic() > until:
                break
    assert len(set(positions)) > 1, positions
    cancel(ada, jobs)


def test_a_deadline_that_cannot_be_met_is_refused(ada):
    slow = upload(ada, SLOW)
    jobs = [begin(ada, slow), *(post(ada, slow) for _ in range(9))]
    deadline = later(0.02)
    answer = ada.post("/v1/jobs", json={"a": slow, "b": slow, "deadline": deadline})
    problem = expect_refusal(answer, 422, "deadline", value=deadline, limit="should end at ")
    assert "with 90% between " in problem["limit"]
    accepted = post(ada, slow, deadline=later(600))
    cancel(ada, [*jobs, accepted])


@pytest.mark.parametrize("deadline", ["soon", "2026-03-01T12:00:00", 12, "2026-03-01"])
def test_a_deadline_is_a_time_with_its_zone(ada, deadline):
    answer = ada.post("/v1/jobs", json={"a": "a", "b": "b", "deadline": deadline})
    expect_refusal(answer, 422, "deadline")


def expect_end(job, kind, at):
    """The job has failed for some reason, at some time."""
    assert job["state"] == "failed", job
    assert job["error"]["kind"] == kind
    assert abs(read(job["finished_at"]) - at) <= allow(0.5)


def post_with_deadline(client, a, size, **options):
    """Post a job whose deadline is the earliest that is accepted, or a little later."""
    for _ in range(20):
        query = f"/v1/plan?m={size}&n={size}&k={size}&dtype=int64&queued=true"
        ends = client.get(query).json()["expected"]
        low, at = read(ends["ends_between"][0]), read(ends["ends_at"])
        deadline = datetime.fromtimestamp(low + 0.2 * (at - low) + 0.05, UTC).isoformat()
        wanted = {"a": a, "b": a, "storage": "memory", "deadline": deadline, **options}
        answer = client.post("/v1/jobs", json=wanted)
        if answer.status_code == 202:
            return answer.json()
    raise AssertionError(answer.text)


def test_a_job_whose_deadline_passes_in_the_queue_ends_then(ada):
    slow, quick = upload(ada, np.ones((1200, 1200), np.int64)), upload(ada, SLOW)
    first = begin(ada, slow)
    job = post_with_deadline(ada, quick, len(SLOW))
    # What comes later and goes first is not foreseen.
    later_ones = [post(ada, slow, priority=1000) for _ in range(9)]
    ended = get(ada, job, wait_seconds=60)
    expect_end(ended, "deadline", read(job["request"]["deadline"]))
    assert job["id"] not in str(ada.get("/v1/jobs?state=queued").json())
    cancel(ada, [first, *later_ones])


def test_a_job_whose_deadline_passes_while_it_runs_ends_then(ada):
    slow = upload(ada, np.ones((1200, 1200), np.int64))
    for _ in range(8):  # some may end before it: that is what 90% says
        job = post_with_deadline(ada, slow, 1200)
        ended = get(ada, job, wait_seconds=60)
        if ended["state"] == "failed":
            break
    expect_end(ended, "deadline", read(job["request"]["deadline"]))
    assert ended["started_at"] is not None
    assert ended["attempts"] == 1
    after = post(ada, upload(ada, np.ones((9, 9))))
    assert get(ada, after, wait_seconds=30)["state"] == "succeeded"


def test_a_job_may_run_for_its_timeout_only(ada):
    slow = upload(ada, np.ones((1800, 1800), np.int64))
    ended = get(ada, post(ada, slow, timeout_seconds=0.5), wait_seconds=30)
    expect_end(ended, "timeout", read(ended["started_at"]) + 0.5)
    assert ended["attempts"] == 1
    assert "0.5 s (timeout_seconds)" in ended["error"]["message"]


def test_a_timeout_is_at_most_the_services(ada):
    a = upload(ada, np.ones((9, 9)))
    answer = ada.post("/v1/jobs", json={"a": a, "b": a, "timeout_seconds": 601})
    limit = "at most 600 (job_timeout_seconds)"
    expect_refusal(answer, 422, "timeout_seconds", value=601, limit=limit)


def test_a_deadline_outlives_a_restart(start_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("restart") / "data"
    with RunningServer(folder, drain_seconds=0) as before:
        slow = upload(before.client, np.ones((1500, 1500), np.int64))
        begin(before.client, slow)
        deadline = later(allow(4))
        job = post(before.client, slow, deadline=deadline, storage="disk")
    with RunningServer(folder) as after:
        ended = get(after.client, job, wait_seconds=50)
        if ended["state"] != "succeeded":
            assert ended["error"]["kind"] == "deadline"
