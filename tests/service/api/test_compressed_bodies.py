"""Bodies in gzip, also of several members, and deflate are taken wherever a body is; pages of
other origins, by a setting.
"""

import gzip
import json
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.limit import allow
from tests.refusals import expect_refusal
from tests.server import NPY, decode_npy, encode_npy, make_server_fixture, open_http

JSON = {"Content-Type": "application/json"}
CODINGS = {"gzip": gzip.compress, "deflate": zlib.compress}

server = make_server_fixture(has_socket=True)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("size", [3, 400])
def test_matrices_are_taken_compressed(server, coding, size):
    matrix = np.random.default_rng(0).integers(0, 9, (size, size)).astype("float64")
    content, headers = CODINGS[coding](encode_npy(matrix)), {**NPY, "Content-Encoding": coding}
    for query in ("", "?storage=memory"):
        stored = server.client.post(f"/v1/matrices{query}", content=content, headers=headers)
        assert stored.status_code == 201, stored.text
        found = server.download(f"/v1/matrices/{stored.json()['id']}/data")
        np.testing.assert_array_equal(found, matrix)
    both = CODINGS[coding](2 * encode_npy(matrix))
    product = server.client.post("/v1/matmul", content=both, headers=headers)
    np.testing.assert_array_equal(decode_npy(product.content), matrix @ matrix)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize(
    ("path", "document", "status"),
    [
        ("/v1/jobs", {"a": "x", "b": "y"}, 404),
        ("/v1/leases", {"bytes": 1}, 201),
        ("/v1/matmul", {"a": 1}, 422),
        ("/v2/models/matmul/infer", {"inputs": []}, 422),
    ],
)
def test_documents_are_taken_compressed(server, coding, path, document, status):
    content = CODINGS[coding](json.dumps(document).encode())
    with open_http(Path(server.settings["unix_socket"])) as client:
        plain = client.post(path, json=document)
        answer = client.post(path, content=content, headers={**JSON, "Content-Encoding": coding})
    assert (answer.status_code, plain.status_code) == (status, status), answer.text
    assert answer.json().keys() == plain.json().keys()


def test_pages_of_the_origins_in_the_settings_may_call(server, start_server):
    origin = "https://lab.example"
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = "authorization,content-type"
    allowed = "access-control-allow-origin"
    preflight = server.client.options("/v1/jobs", headers=asked)
    assert allowed not in preflight.headers
    assert allowed not in server.client.get("/v1/jobs", headers={"Origin": origin}).headers
    key = "a-key-of-these-tests"
    open_server = start_server(cors_origins=f"{origin},http://localhost:3000", api_key=key)
    client = open_server.client
    preflight = client.options("/v1/jobs", headers=asked)
    assert (preflight.status_code, preflight.headers[allowed]) == (200, origin)
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert client.options("/v1/jobs", headers={**asked, "Origin": "https://x"}).status_code == 400
    headers = {"Origin": origin, "Authorization": f"Bearer {key}"}
    answer = client.get("/v1/jobs", headers=headers)
    assert (answer.status_code, answer.headers[allowed]) == (200, origin)
    assert "etag" in answer.headers["access-control-expose-headers"].lower()
    product = open_server.multiply(np.eye(3), np.eye(3), headers=headers)
    assert (product.status_code, product.headers[allowed]) == (200, origin)
    assert client.get("/v1/jobs", headers={"Origin": origin}).headers[allowed] == origin
    assert allowed not in client.get("/v1/jobs", headers={**headers, "Origin": "https://x"}).headers


INFER = "/v2/models/matmul/infer"
ONE = {"datatype": "FP32", "shape": [1, 1], "data": [3]}
BLANK = gzip.compress(b" ", mtime=0)
REQUEST = json.dumps({"inputs": [{"name": name, **ONE} for name in "AB"]}).encode()


def post(server, content):
    return server.client.post(INFER, content=content, headers={**JSON, "Content-Encoding": "gzip"})


@pytest.mark.parametrize("size", [1, 7, len(REQUEST) - 1])
@pytest.mark.parametrize("sent_at_once", [1, 1000])
def test_members_of_gzip_are_one_body(shared_server, size, sent_at_once):
    pieces = (REQUEST[begin : begin + size] for begin in range(0, len(REQUEST) + size, size))
    content = b"".join(gzip.compress(piece, 1) for piece in pieces)  # the last is empty

    def send():
        for begin in range(0, len(content), sent_at_once):
            yield content[begin : begin + sent_at_once]

    for body in (content, send()):
        answer = post(shared_server, body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"][0]["data"] == [9.0]


@pytest.mark.parametrize(
    ("rubbish", "status", "field", "limit"),
    [
        (b"1", 400, "body", "several members of gzip"),
        (b"rubbish", 400, "body", "several members of gzip"),
        (bytes(512), 400, "body", "several members of gzip"),
        (zlib.compress(b" "), 400, "body", "several members of gzip"),
        (b"\x1frubbish", 415, "Content-Encoding", "incorrect header check"),
        (b"\x1f", 400, "body", "cut off"),
        (BLANK[:-1], 400, "body", "cut off"),
        (BLANK[:-1] + b"x", 415, "Content-Encoding", "incorrect length check"),
    ],
)
def test_rubbish_after_a_member_is_refused(shared_server, rubbish, status, field, limit):
    for members in (
        gzip.compress(REQUEST),
        gzip.compress(REQUEST[:9]) + gzip.compress(REQUEST[9:]),
    ):
        expect_refusal(post(shared_server, members + rubbish), status, field, limit=limit)


def test_members_together_are_not_larger_than_a_body_may_be(shared_server):
    member = gzip.compress(b" " * 2**20)
    expect_refusal(post(shared_server, member * 9), 413, "body")


@pytest.mark.serial
def test_members_without_content_cost_little(shared_server):
    """Each end of a member must not copy all that has been received."""
    content = gzip.compress(b"") * 400_000 + gzip.compress(REQUEST)
    begin = time.perf_counter()
    assert post(shared_server, content).status_code == 200
    assert time.perf_counter() - begin < allow(3)
