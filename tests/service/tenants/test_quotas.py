"""Quotas of keys: what is refused, that nothing slips past them, and that others are untouched."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.leases import Lease
from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import NPY, encode_npy
from tests.service.api.wire.wire_server import make_head
from tests.service.tenants.tenants import finish_job, manage_keys, open_caller, post_job, store

MIB = 2**20
FILE_BYTES = len(encode_npy(np.ones((20, 20))))


@pytest.fixture
def make_caller(server):
    clients = []

    def make(name, *quotas):
        key = manage_keys(server, "add", name, *quotas)
        clients.append(open_caller(server, key, server.unix_socket))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def show_me(client):
    return client.get("/v1/me").json()


def upload(client, size=20, query=""):
    content = encode_npy(np.ones((size, size)))
    return client.post(f"/v1/matrices{query}", content=content, headers=NPY)


def ask_at_once(count, ask):
    with ThreadPoolExecutor(count) as pool:
        return [one.result() for one in [pool.submit(ask) for _ in range(count)]]


def test_uploads_at_once_store_what_the_quota_has_room_for_and_no_more(make_caller):
    ada = make_caller("ada", "--max-stored-bytes", 5 * FILE_BYTES + 100)
    answers = ask_at_once(12, lambda: upload(ada))
    assert Counter(one.status_code for one in answers) == {201: 5, 507: 7}
    # Among others at once, those that are not stored yet count, too.
    limit = str(5 * FILE_BYTES + 100)
    expect_refusal(upload(ada), 507, "stored bytes", value=6 * FILE_BYTES, limit=limit)
    quota = {"used": 5 * FILE_BYTES, "limit": 5 * FILE_BYTES + 100}
    assert show_me(ada)["stored_bytes"] == quota
    assert show_me(ada)["bytes_in_flight"] == {"used": 0, "limit": None}
    for storage in ("disk", "memory"):
        stored = next(one.json()["id"] for one in answers if one.status_code == 201)
        answers = [one for one in answers if stored not in one.text]
        assert ada.delete(f"/v1/matrices/{stored}").status_code == 204
        assert upload(ada, query=f"?storage={storage}").status_code == 201
        assert upload(ada, query=f"?storage={storage}").status_code == 507


def test_a_product_that_the_quota_has_no_room_for_fails_its_job(make_caller):
    bob = make_caller("bob", "--max-stored-bytes", 2 * FILE_BYTES)
    matrix = store(bob, 20)["id"]
    finish_job(bob, post_job(bob, matrix, matrix))
    posted = post_job(bob, matrix, matrix).json()
    job = bob.get(f"/v1/jobs/{posted['id']}?wait_seconds=60").json()
    assert (job["state"], job["error"]["kind"]) == ("failed", "storage")
    assert f"stored bytes is {3 * FILE_BYTES}" in job["error"]["message"]
    assert show_me(bob)["stored_bytes"]["used"] == 2 * FILE_BYTES


def test_jobs_posted_at_once_queue_as_many_as_the_quota_says(make_caller, server):
    eve, other = make_caller("eve", "--max-queued-jobs", 3), make_caller("other")
    ahead, matrix = store(other, 900)["id"], store(eve, 900)["id"]
    with server.engine_stopped():
        assert post_job(other, ahead, ahead).status_code == 202
        posted = ask_at_once(10, lambda: post_job(eve, matrix, matrix))
        statuses = Counter(one.status_code for one in posted)
        assert set(statuses) == {202, 429}
        assert 3 <= statuses[202] <= 4, "one may have begun"
        problem = next(one for one in posted if one.status_code == 429)
        expect_refusal(problem, 429, "queued jobs", limit="at most 3")
        assert int(problem.headers["Retry-After"]) >= 1
        assert post_job(other, ahead, ahead).status_code == 202
        assert show_me(eve)["queued_jobs"]["limit"] == 3
    for caller in (eve, other):
        for job in caller.get("/v1/jobs").json()["jobs"]:
            caller.delete(f"/v1/jobs/{job['id']}")
    wait_until(lambda: show_me(eve)["queued_jobs"]["used"] == 0)


def test_what_requests_hold_is_counted_until_they_end(make_caller, server):
    zoe = make_caller("zoe", "--max-bytes-in-flight", "4MiB")
    square = encode_npy(np.ones((400, 400)))  # 1.2 MiB
    product = lambda: zoe.post("/v1/matmul", content=2 * square, headers=NPY)  # noqa: E731
    assert product().status_code == 200
    with server.connect() as stalled:
        key = f"Authorization: {zoe.headers['Authorization']}"
        stalled.sendall(make_head("/v1/matrices", len(square), key) + square[:70_000])
        wait_until(lambda: show_me(zoe)["bytes_in_flight"]["used"] >= len(square))
        expect_refusal(product(), 429, "bytes in flight", limit="at most 4194304")
        assert zoe.post("/v1/matmul", content=2 * square[:0], headers=NPY).status_code == 400
    wait_until(lambda: show_me(zoe)["bytes_in_flight"]["used"] == 0)
    large = encode_npy(np.ones((500, 400)))  # 1.5 MiB: with the product 4.9 MiB
    for refused in (
        zoe.post("/v1/matmul", content=large + encode_npy(np.ones((400, 500))), headers=NPY),
        zoe.post("/v1/leases", json={"bytes": 5 * MIB}),
        upload(zoe, 800),
    ):
        problem = expect_refusal(refused, 413, "bytes of the request")
        assert "Retry-After" not in refused.headers
        assert 4 * MIB < problem["value"] < 7 * MIB
    assert show_me(zoe)["bytes_in_flight"]["used"] == 0
    with Lease(zoe, 3 * MIB):
        assert show_me(zoe)["bytes_in_flight"]["used"] == 4 * MIB
        assert zoe.post("/v1/leases", json={"bytes": 1}).status_code == 429
        assert upload(zoe).status_code == 429
    wait_until(lambda: show_me(zoe)["bytes_in_flight"]["used"] == 0)
    assert product().status_code == 200


def test_quotas_are_listed_changed_and_taken_away(make_caller, server):
    kim = make_caller("kim", "--max-stored-bytes", "1KiB", "--max-queued-jobs", 7)
    assert upload(kim).status_code == 507
    manage_keys(server, "limit", "kim", "--max-stored-bytes", "none")
    wait_until(lambda: upload(kim).status_code == 201)  # within two seconds
    assert "kim" in manage_keys(server, "list")
    assert "at most 7 jobs" in manage_keys(server, "list")
    wait_until(lambda: show_me(kim)["stored_bytes"] == {"used": FILE_BYTES, "limit": None})


def test_a_renewed_key_finds_what_is_its_names_and_the_one_before_is_refused(make_caller, server):
    before = make_caller("lou")
    matrix = store(before)["id"]
    manage_keys(server, "revoke", "lou")
    after = open_caller(server, manage_keys(server, "renew", "lou"))
    assert after.get(f"/v1/matrices/{matrix}").status_code == 200
    assert before.get("/v1/matrices").status_code == 401
    after.close()
