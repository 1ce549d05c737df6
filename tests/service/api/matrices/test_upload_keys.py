"""Uploads under an Idempotency-Key: the same matrix once, another one never."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.refusals import expect_refusal
from tests.server import NPY, encode_npy

SMALL = np.arange(35, dtype=np.float32).reshape(5, 7)


def post(server, array, key, *, storage="disk"):
    headers = {**NPY, "Idempotency-Key": key}
    path = f"/v1/matrices?storage={storage}"
    return server.client.post(path, content=encode_npy(array), headers=headers)


def check_once(server, array, key, **where):
    """Uploads it twice; returns the id of the one matrix."""
    first, again = (post(server, array, key, **where) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200), again.text
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert np.array_equal(server.download(f"{first.headers['location']}/data"), array)
    return str(first.json()["id"])


@pytest.mark.parametrize("storage", ["disk", "memory"])
@pytest.mark.parametrize("size", [7, 900])
def test_the_same_matrix_with_the_same_key_is_stored_once(shared_server, size, storage):
    array = np.random.default_rng(size).random((size, size + 1))
    matrix_id = check_once(shared_server, array, f"{storage} {size}", storage=storage)
    assert shared_server.client.delete(f"/v1/matrices/{matrix_id}").status_code == 204
    # Its key has gone with it.
    other = check_once(shared_server, array + 1, f"{storage} {size}", storage=storage)
    assert other != matrix_id
    assert shared_server.client.delete(f"/v1/matrices/{other}").status_code == 204


def test_another_matrix_with_the_key_is_refused(shared_server):
    first = post(shared_server, SMALL, "taken").json()["id"]
    changed = SMALL.copy()
    changed[4, 6] += 1
    others = [changed, SMALL.reshape(7, 5), np.asarray(SMALL, order="F"), SMALL.view(np.int32)]
    files = shared_server.list_matrix_files()
    refused = [post(shared_server, other, "taken") for other in others]
    refused.append(post(shared_server, SMALL, "taken", storage="memory"))
    for response in refused:
        expect_refusal(response, 422, "Idempotency-Key", value="taken", limit=first)
    assert shared_server.list_matrix_files() == files


@pytest.mark.parametrize("size", [9, 900])
def test_uploads_with_one_key_at_the_same_moment_store_one_matrix(shared_server, size):
    array = np.random.default_rng(size).random((size, size))
    before = shared_server.list_matrix_files()
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: post(shared_server, array, f"race {size}"), range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    new = shared_server.list_matrix_files() - before
    assert new == {f"{answers[0].json()['id']}.npy"}


@pytest.mark.parametrize("key", ["", "k" * 256, "ä", "a\tb"])
def test_keys_that_cannot_be_kept_are_refused(shared_server, key):
    headers = {b"Content-Type": b"application/x-npy", b"Idempotency-Key": key.encode()}
    response = shared_server.client.post("/v1/matrices", content=encode_npy(SMALL), headers=headers)
    expect_refusal(response, 422, "Idempotency-Key")


def test_a_key_outlives_a_restart_and_its_repetition_needs_no_room(start_server):
    array = np.ones((20, 20))
    size = len(encode_npy(array))
    server = start_server(arena_bytes=0, max_storage_bytes=size + 100)
    first = post(server, array, "once")
    assert first.status_code == 201
    server.kill()
    server.restart()
    again = post(server, array, "once")
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert post(server, array, "another").status_code == 507
    assert server.list_matrix_files() == {f"{first.json()['id']}.npy"}
