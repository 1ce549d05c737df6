"""Compressed requests for products: in gzip also of several members, and nothing after them."""

import gzip
import json
import time
import zlib

import pytest

from tests.limit import allow
from tests.refusals import expect_refusal

INFER = "/v2/models/matmul/infer"
GZIP = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
ONE = {"datatype": "FP32", "shape": [1, 1], "data": [3]}
BLANK = gzip.compress(b" ", mtime=0)
JSON = json.dumps({"inputs": [{"name": name, **ONE} for name in "AB"]}).encode()


def post(server, content, **headers):
    return server.client.post(INFER, content=content, headers={**GZIP, **headers})


@pytest.mark.parametrize("size", [1, 7, len(JSON) - 1])
@pytest.mark.parametrize("sent_at_once", [1, 1000])
def test_members_of_gzip_are_one_body(shared_server, size, sent_at_once):
    pieces = (JSON[begin : begin + size] for begin in range(0, len(JSON) + size, size))
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
    for members in (gzip.compress(JSON), gzip.compress(JSON[:9]) + gzip.compress(JSON[9:])):
        expect_refusal(post(shared_server, members + rubbish), status, field, limit=limit)


def test_members_together_are_not_larger_than_a_body_may_be(shared_server):
    member = gzip.compress(b" " * 2**20)
    expect_refusal(post(shared_server, member * 9), 413, "body")


@pytest.mark.serial
def test_members_without_content_cost_little(shared_server):
    """Each end of a member must not copy all that has been received."""
    content = gzip.compress(b"") * 400_000 + gzip.compress(JSON)
    begin = time.perf_counter()
    assert post(shared_server, content).status_code == 200
    assert time.perf_counter() - begin < allow(3)
