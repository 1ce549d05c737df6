"""`priority` and `timeout` of the Open Inference Protocol: a product's place in the queue."""

import time

import numpy as np

from tests.limit import allow
from tests.processes import wait_until
from tests.server import NPY, encode_npy

INFER = "/v2/models/matmul/infer"

SIZE = 500
"""A square of int64 of this size takes about a tenth of a second."""


def ask(size, **parameters):
    tensors = [
        {"name": name, "datatype": "INT64", "shape": [size, size], "data": [1] * size**2}
        for name in "AB"
    ]
    return {"inputs": tensors, "parameters": {"binary_data_output": True, **parameters}}


def flood(client, size, count):
    """Post some jobs; returns their ids once the first one runs."""
    array = encode_npy(np.ones((size, size), np.int64))
    a = client.post("/v1/matrices", content=array, headers=NPY).json()["id"]
    wanted = [{"a": a, "b": a, "storage": "memory"}] * count
    jobs = [one["id"] for one in client.post("/v1/jobs", json=wanted).json()]
    wait_until(lambda: client.get(f"/v1/jobs/{jobs[0]}").json()["state"] != "queued")
    return jobs


def count_ended(client, jobs):
    found = [client.get(f"/v1/jobs/{one}").json()["state"] for one in jobs]
    for one in jobs:
        client.delete(f"/v1/jobs/{one}")
    return found.count("succeeded")


def test_the_highest_priority_goes_before_older_products(shared_server):
    client = shared_server.client
    jobs = flood(client, SIZE, 30)
    # Read, while some jobs end; then it goes first.
    assert client.post(INFER, json=ask(SIZE, priority=1), timeout=60).status_code == 200
    urgent = count_ended(client, jobs)
    assert urgent < 25, "it did not wait for all"


def test_a_product_that_is_not_computed_within_its_timeout_fails(shared_server):
    client = shared_server.client
    jobs = flood(client, 1500, 2)
    began = time.monotonic()
    waits = client.post(INFER, json=ask(SIZE, timeout=500_000), timeout=60)
    seconds = time.monotonic() - began
    count_ended(client, jobs)
    assert waits.status_code == 504, waits.text
    assert "within its timeout" in waits.json()["detail"]
    assert seconds < allow(4), "its JSON is read, too"
    assert client.post(INFER, json=ask(4, timeout=10**7)).status_code == 200
