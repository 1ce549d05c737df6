"""Uploads over HTTP: streamed to their place, once under a key, or refused with reasons."""

import base64
import hashlib
import json
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import NPY, decode_npy, encode_npy, make_server_fixture
from tests.service.api.wire.wire_server import exchange, make_head
from wavetrim.service.storage.matrices.npy import DTYPES

ARRAY = np.arange(35, dtype=np.float32).reshape(5, 7)

tight_server = make_server_fixture(
    max_matrix_bytes=4_000, max_storage_bytes="5KB", upload_idle_seconds=0.5
)


def digest(content):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def cut(content, *, pieces=7, seed=0):
    """Pieces of all sizes: the client sends them as chunks, without a Content-Length."""
    source = random.Random(seed)
    cuts = sorted(source.randint(0, len(content)) for _ in range(pieces - 1))
    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        if begin < end:
            yield content[begin:end]


def post(server, content, **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.client.post("/v1/matrices", content=content, headers={**NPY, **names})


def check_refused(server, response, status, field=None, **members):
    """Nothing is stored; returns the problem."""
    assert not [name for name in server.list_matrix_files() if name.endswith(".part")]
    return expect_refusal(response, status, field, **members)


@pytest.mark.parametrize("dtype", sorted(DTYPES.values()))
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_comes_back_as_it_was_sent(shared_server, dtype, order):
    array = np.asarray(ARRAY, dtype=dtype, order=order)
    response = post(shared_server, encode_npy(array))
    assert response.status_code == 201
    stored = response.json()
    assert response.headers["location"] == f"/v1/matrices/{stored['id']}"
    assert stored["shape"] == [5, 7]
    assert stored["dtype"] == dtype
    assert stored["fortran_order"] == (order == "F")
    assert stored["bytes"] == len(encode_npy(array))
    assert shared_server.client.get(response.headers["location"]).json() == stored
    data = shared_server.client.get(f"{response.headers['location']}/data")
    assert data.headers["content-type"] == "application/x-npy"
    assert data.content == encode_npy(array)


@pytest.mark.parametrize("seed", range(2))
def test_a_large_body_in_chunks_of_all_sizes_comes_back(shared_server, seed):
    array = np.random.default_rng(seed).random((1023, 1031))
    content = encode_npy(array)
    response = post(
        shared_server, cut(content, pieces=40, seed=seed), Content_Digest=digest(content)
    )
    assert response.status_code == 201, response.text
    data = shared_server.client.get(f"/v1/matrices/{response.json()['id']}/data")
    assert np.array_equal(decode_npy(data.content), array)
    assert len(data.content) == array.nbytes + 4096, "the header is padded"
    assert data.headers["content-digest"] == digest(data.content)
    shared_server.client.delete(response.headers["location"])


def test_a_matrix_in_memory_has_no_file_and_is_gone_with_a_restart(start_server):
    server = start_server(arena_poison=True)
    path = "/v1/matrices?storage=memory"
    stored = server.client.post(path, content=encode_npy(ARRAY), headers=NPY).json()
    assert stored["where"] == "memory"
    assert server.list_matrix_files() == set()
    data = f"/v1/matrices/{stored['id']}/data"
    assert np.array_equal(server.download(data), ARRAY)
    square = np.ones((20, 20))
    a = server.upload(square, storage="memory")
    job = server.run_job(a, a, storage="memory")
    assert np.array_equal(server.download(f"/v1/jobs/{job['id']}/result"), square @ square)
    assert server.list_matrix_files() == set()
    server.stop()
    server.restart()
    assert server.client.get(data).status_code == 404


def test_without_an_arena_nothing_is_stored_in_memory(start_server):
    server = start_server(arena_bytes=0)
    path = "/v1/matrices?storage=memory"
    refused = server.client.post(path, content=encode_npy(ARRAY), headers=NPY)
    assert expect_refusal(refused, 507)["limit"]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("missing", [1, 100, 140, 268, -4])
def test_a_body_of_another_length_is_refused_with_both_lengths(shared_server, chunked, missing):
    content = encode_npy(ARRAY)
    wrong = content[:-missing] if missing > 0 else content + b"more"
    sent = cut(wrong) if chunked else wrong
    problem = check_refused(shared_server, post(shared_server, sent), 400, "body")
    assert str(len(wrong)) in problem["value"] or (chunked and missing < 0)
    if missing <= 140:
        assert str(len(content)) in problem["limit"]


def test_a_body_without_a_matrix_is_told_what_it_lacks(shared_server):
    for content, lacks in (
        (b"", "no matrix"),
        (b"\x93NUM", "inside the .npy header of the matrix"),
    ):
        problem = check_refused(shared_server, post(shared_server, content), 400)
        assert problem["limit"].startswith("longer: ")
        assert problem["limit"].endswith(lacks)


@pytest.mark.parametrize(
    ("array", "status", "field"),
    [
        (np.zeros(4, np.float32), 400, "shape"),
        (np.zeros((2, 2, 2, 2), np.float32), 400, "shape"),
        (np.zeros((2, 2), ">f4"), 415, "descr"),
        (np.zeros((2, 2), [("x", "<f4")]), 415, "descr"),
    ],
)
def test_other_arrays_are_refused(shared_server, array, status, field):
    check_refused(shared_server, post(shared_server, encode_npy(array)), status, field)


def test_other_media_types_are_refused(shared_server):
    content = encode_npy(ARRAY)
    refused = post(shared_server, content, Content_Type="application/json")
    check_refused(shared_server, refused, 415, "Content-Type", limit="application/x-npy")
    octets = post(shared_server, content, Content_Type="application/octet-stream; charset=binary")
    assert octets.status_code == 201


def test_a_digest_that_differs_is_refused_with_both(shared_server):
    files = shared_server.list_matrix_files()
    content = encode_npy(ARRAY)
    other = digest(b"")
    refused = post(shared_server, content, Content_Digest=other)
    check_refused(shared_server, refused, 400, "Content-Digest", value=other, limit=digest(content))
    assert shared_server.list_matrix_files() == files


@pytest.mark.parametrize(
    "text", ["sha-256=1", "sha-256=:AAAA:", "sha-256=:====:", "=:AAAA:", f"{digest(b'')} x=:A=:"]
)
def test_a_digest_that_cannot_be_read_is_refused(shared_server, text):
    refused = post(shared_server, encode_npy(ARRAY), Content_Digest=text)
    assert check_refused(shared_server, refused, 400, "Content-Digest")["value"] in text


def test_digests_by_other_algorithms_are_ignored(shared_server):
    content = encode_npy(ARRAY)
    for text in ("md5=:AAAA:", f"sha-512=:AAAA:, {digest(content)}", f"{digest(content)} , a=:A=:"):
        assert post(shared_server, content, Content_Digest=text).status_code == 201


def test_a_body_over_the_limit_is_refused_before_it_is_sent(tight_server):
    server = tight_server
    status, content = exchange(server, make_head("/v1/matrices", 999999999999))
    assert (status, json.loads(content)["value"]) == (413, 999999999999)
    assert b"at most 14000 bytes" in content
    big = encode_npy(np.zeros((1, 1000), np.float32))
    for sent in (cut(big), big):
        problem = check_refused(server, post(server, sent), 413)
        assert (problem["value"], "4000" in problem["limit"]) == (4128, True)


def test_full_storage_refuses_until_a_matrix_is_removed(tight_server):
    server = tight_server
    first = server.upload(np.zeros((30, 30), np.float32))
    refused = post(server, encode_npy(np.zeros((30, 20), np.float32)))
    limit = "1272 bytes left of 5000"
    check_refused(server, refused, 507, "matrix size", value=2528, limit=limit)
    assert server.client.delete(f"/v1/matrices/{first}").status_code == 204
    second = server.upload(np.zeros((30, 20), np.float32))
    assert server.client.delete(f"/v1/matrices/{second}").status_code == 204


def test_uploads_at_once_never_exceed_the_storage(tight_server):
    content = encode_npy(np.zeros((30, 10), np.float32))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(partial(post, tight_server), [content] * 8))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [507] * 5
    for answer in answers:
        if answer.status_code == 201:
            tight_server.client.delete(f"/v1/matrices/{answer.json()['id']}")


def test_nothing_is_left_of_an_upload_whose_caller_leaves(shared_server):
    files = shared_server.list_matrix_files()
    content = encode_npy(np.zeros((1000, 1000)))
    with shared_server.connect() as connection:
        connection.sendall(make_head("/v1/matrices", len(content)) + content[:5_000_000])
        wait_until(lambda: shared_server.list_matrix_files() != files)
    wait_until(lambda: shared_server.list_matrix_files() == files)


def post_once(server, array, key, *, storage="disk"):
    headers = {**NPY, "Idempotency-Key": key}
    path = f"/v1/matrices?storage={storage}"
    return server.client.post(path, content=encode_npy(array), headers=headers)


def check_once(server, array, key, **where):
    """Uploads it twice; returns the id of the one matrix."""
    first, again = (post_once(server, array, key, **where) for _ in range(2))
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
    first = post_once(shared_server, ARRAY, "taken").json()["id"]
    changed = ARRAY.copy()
    changed[4, 6] += 1
    others = [changed, ARRAY.reshape(7, 5), np.asarray(ARRAY, order="F"), ARRAY.view(np.int32)]
    files = shared_server.list_matrix_files()
    refused = [post_once(shared_server, other, "taken") for other in others]
    refused.append(post_once(shared_server, ARRAY, "taken", storage="memory"))
    for response in refused:
        expect_refusal(response, 422, "Idempotency-Key", value="taken", limit=first)
    assert shared_server.list_matrix_files() == files


@pytest.mark.parametrize("size", [9, 900])
def test_uploads_with_one_key_at_the_same_moment_store_one_matrix(shared_server, size):
    array = np.random.default_rng(size).random((size, size))
    before = shared_server.list_matrix_files()
    with ThreadPoolExecutor(6) as threads:
        answers = list(
            threads.map(lambda _: post_once(shared_server, array, f"race {size}"), range(6))
        )
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    new = shared_server.list_matrix_files() - before
    assert new == {f"{answers[0].json()['id']}.npy"}


@pytest.mark.parametrize("key", ["", "k" * 256, "ä", "a\tb"])
def test_keys_that_cannot_be_kept_are_refused(shared_server, key):
    headers = {b"Content-Type": b"application/x-npy", b"Idempotency-Key": key.encode()}
    response = shared_server.client.post("/v1/matrices", content=encode_npy(ARRAY), headers=headers)
    expect_refusal(response, 422, "Idempotency-Key")


def test_a_key_outlives_a_restart_and_its_repetition_needs_no_room(start_server):
    array = np.ones((20, 20))
    size = len(encode_npy(array))
    server = start_server(arena_bytes=0, max_storage_bytes=size + 100)
    first = post_once(server, array, "once")
    assert first.status_code == 201
    server.kill()
    server.restart()
    again = post_once(server, array, "once")
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert post_once(server, array, "another").status_code == 507
    assert server.list_matrix_files() == {f"{first.json()['id']}.npy"}
