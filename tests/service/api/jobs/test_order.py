"""Whose turn it is, over HTTP: callers with keys of their own, and one that floods the service.

Also by `priority` and `timeout` of the Open Inference Protocol.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.limit import allow
from tests.processes import wait_until
from tests.server import NPY, encode_npy
from tests.service.tenants.tenants import OWN_KEY, manage_keys, open_caller, upload

SLOW = np.ones((500, 500), np.int64)
"""Its square takes about a tenth of a second: int64 has no fast product."""


@pytest.fixture
def server(start_server):
    return start_server(api_key=OWN_KEY, max_queued_jobs=40)


@pytest.fixture
def callers(server):
    opened = [open_caller(server, manage_keys(server, "add", name)) for name in ("ada", "bob")]
    yield opened
    for one in opened:
        one.close()


def post(client, a, **options):
    return client.post("/v1/jobs", json={"a": a, "b": a, "storage": "memory", **options})


def flood(client, a, count, **options):
    answers = [post(client, a, **options) for _ in range(count)]
    assert {one.status_code for one in answers} == {202}
    return [one.json()["id"] for one in answers]


def finish(client, job_id):
    """Wait for a job; returns when it ended."""
    job = client.get(f"/v1/jobs/{job_id}?wait_seconds=60").json()
    assert job["state"] == "succeeded", job
    return str(job["finished_at"])


def count_ended(client, jobs, at):
    """How many of some jobs had ended at a time."""
    ends = [client.get(f"/v1/jobs/{one}").json()["finished_at"] for one in jobs]
    return sum(end is not None and end <= at for end in ends)


def test_a_caller_that_floods_the_queue_delays_others_by_their_share(callers):
    ada, bob = callers
    a, b = upload(ada, SLOW), upload(bob, SLOW)
    flooded = flood(ada, a, 30, priority=1000)
    wanted = flood(bob, b, 4)
    last = max(finish(bob, one) for one in wanted)
    # Those that ran when bob's were posted, one for each of bob's, and the one that ran last.
    assert count_ended(ada, flooded, last) <= 12
    for one in flooded:
        ada.delete(f"/v1/jobs/{one}")


def test_a_product_in_one_call_waits_for_its_turn_and_no_longer(callers):
    ada, bob = callers
    flooded = flood(ada, upload(ada, SLOW), 30)
    began = time.monotonic()
    answer = bob.post("/v1/matmul", content=2 * encode_npy(SLOW), headers=NPY)
    seconds = time.monotonic() - began
    assert answer.status_code == 200
    ended = sum(one["state"] == "succeeded" for one in ada.get("/v1/jobs").json()["jobs"])
    assert ended < 20, f"it took {seconds:.1f} s"
    for one in flooded:
        ada.delete(f"/v1/jobs/{one}")


def test_small_products_do_not_wait_for_a_large_one(callers):
    ada, _ = callers
    large, small = upload(ada, np.ones((2400, 2400), np.int64)), upload(ada, np.ones((64, 64)))
    slow = post(ada, large).json()["id"]
    wait_until(lambda: ada.get(f"/v1/jobs/{slow}").json()["state"] == "running")
    for one in flood(ada, small, 20):
        finish(ada, one)
    assert ada.get(f"/v1/jobs/{slow}").json()["state"] == "running"
    ada.delete(f"/v1/jobs/{slow}")


def test_of_a_callers_jobs_the_short_ones_and_the_urgent_ones_go_first(callers):
    ada, _ = callers
    sizes = {size: upload(ada, np.ones((size, size), np.int64)) for size in (300, 600, 900)}
    first = flood(ada, sizes[900], 2)  # one runs, one is in memory already
    wait_until(lambda: ada.get(f"/v1/jobs/{first[0]}").json()["state"] == "running")
    (usual,) = flood(ada, sizes[600], 1)
    (short,) = flood(ada, sizes[300], 1)
    (urgent,) = flood(ada, sizes[600], 1, priority=1000)
    ends = {name: finish(ada, one) for name, one in
            (("usual", usual), ("short", short), ("urgent", urgent))}  # fmt: skip
    assert ends["urgent"] < ends["usual"]
    assert ends["short"] < ends["usual"]


def test_a_full_queue_is_its_callers_alone(callers):
    ada, bob = callers
    slow = upload(ada, np.ones((1400, 1400), np.int64))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: post(ada, slow), range(48)))
    taken = [one.json()["id"] for one in answers if one.status_code == 202]
    assert 40 <= len(taken) <= 42, "those in the queue, and one that runs"
    refused = next(one for one in answers if one.status_code == 429)
    assert refused.json()["limit"] == "at most 40 of a caller (max_queued_jobs)"
    began = time.monotonic()
    assert post(bob, upload(bob, np.ones((4, 4)))).status_code == 202
    assert time.monotonic() - began < allow(2)
    for one in taken:
        ada.delete(f"/v1/jobs/{one}")


def test_metrics_tell_what_is_left_and_how_long_the_last_one_waits(server, callers):
    ada, _ = callers
    slow = upload(ada, np.ones((1200, 1200), np.int64))
    jobs = flood(ada, slow, 6)
    wait_until(lambda: ada.get(f"/v1/jobs/{jobs[0]}").json()["state"] == "running")
    admin = {"Authorization": f"Bearer {OWN_KEY}"}

    def look():
        shown = server.client.get("/v1/devices", headers=admin).json()
        (lane,) = shown["lanes"]
        return lane["busy_seconds"], shown["longest_wait_seconds"]

    busy_seconds, wait_seconds = look()
    assert busy_seconds > 0
    assert wait_seconds > 3 * busy_seconds, "five wait for one that runs"
    for one in jobs:
        ada.delete(f"/v1/jobs/{one}")
    wait_until(lambda: look() == (0, 0))


INFER = "/v2/models/matmul/infer"


def ask(size, **parameters):
    tensors = [
        {"name": name, "datatype": "INT64", "shape": [size, size], "data": [1] * size**2}
        for name in "AB"
    ]
    return {"inputs": tensors, "parameters": {"binary_data_output": True, **parameters}}


def queue_squares(client, size, count):
    """Post some jobs; returns their ids once the first one runs."""
    a = upload(client, np.ones((size, size), np.int64))
    wanted = [{"a": a, "b": a, "storage": "memory"}] * count
    jobs = [one["id"] for one in client.post("/v1/jobs", json=wanted).json()]
    wait_until(lambda: client.get(f"/v1/jobs/{jobs[0]}").json()["state"] != "queued")
    return jobs


def count_succeeded(client, jobs):
    found = [client.get(f"/v1/jobs/{one}").json()["state"] for one in jobs]
    for one in jobs:
        client.delete(f"/v1/jobs/{one}")
    return found.count("succeeded")


def test_the_highest_priority_goes_before_older_products(shared_server):
    client = shared_server.client
    jobs = queue_squares(client, len(SLOW), 30)
    # Read, while some jobs end; then it goes first.
    assert client.post(INFER, json=ask(len(SLOW), priority=1), timeout=60).status_code == 200
    urgent = count_succeeded(client, jobs)
    assert urgent < 25, "it did not wait for all"


def test_a_product_that_is_not_computed_within_its_timeout_fails(shared_server):
    client = shared_server.client
    jobs = queue_squares(client, 1500, 2)
    began = time.monotonic()
    waits = client.post(INFER, json=ask(len(SLOW), timeout=500_000), timeout=60)
    seconds = time.monotonic() - began
    count_succeeded(client, jobs)
    assert waits.status_code == 504, waits.text
    assert "within its timeout" in waits.json()["detail"]
    assert seconds < allow(4), "its JSON is read, too"
    assert client.post(INFER, json=ask(4, timeout=10**7)).status_code == 200
