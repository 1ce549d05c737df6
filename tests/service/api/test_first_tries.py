"""What a new user tries first and gets wrong, and what the service says to it."""

import io
from typing import Any

import httpx
import numpy as np
import pytest

from tests.server import NPY, RunningServer, encode_npy

FILE = encode_npy(np.eye(4))
JSON = {"Content-Type": "application/json"}


def refuse(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of a refusal."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    return document


def post(
    server: RunningServer, path: str, content: bytes, headers: dict[str, str]
) -> httpx.Response:
    return server.client.post(path, content=content, headers=headers)


def test_two_files_where_one_is_expected(shared_server: RunningServer) -> None:
    problem = refuse(post(shared_server, "/v1/matrices", FILE + FILE, NPY), 400)
    assert problem["detail"] == (
        "body is '512 bytes'; it must be 256 bytes, by its .npy header (shape (4, 4) of float64); "
        "one file here, two for POST /v1/matmul"
    )


def test_one_file_where_two_are_expected(shared_server: RunningServer) -> None:
    problem = refuse(post(shared_server, "/v1/matmul", FILE, NPY), 400)
    assert problem["detail"] == (
        "body is '256 bytes'; it must be longer: no second matrix, B, after the first one in "
        "the same body"
    )


def test_an_archive_where_a_file_is_expected(shared_server: RunningServer) -> None:
    archive = io.BytesIO()
    np.savez(archive, a=np.eye(4))
    problem = refuse(post(shared_server, "/v1/matrices", archive.getvalue(), NPY), 400)
    assert "a .npy file, as numpy.save writes it; this is a zip file" in problem["detail"]


@pytest.mark.parametrize("path", ["/v1/matrices", "/v1/matmul"])
def test_no_content_type_where_a_file_is_sent(shared_server: RunningServer, path: str) -> None:
    form = "multipart/form-data"
    for headers, value in (({}, ""), ({"Content-Type": form}, form)):
        problem = refuse(post(shared_server, path, FILE + FILE, headers), 415)
        assert (problem["field"], problem["value"]) == ("Content-Type", value)
        assert problem["limit"] == "application/octet-stream or application/x-npy"


def test_no_content_type_where_json_is_sent(shared_server: RunningServer) -> None:
    for headers in ({}, {"Content-Type": "application/x-www-form-urlencoded"}):
        problem = refuse(post(shared_server, "/v1/jobs", b'{"a": "x", "b": "y"}', headers), 415)
        assert (problem["field"], problem["limit"]) == ("Content-Type", "application/json")


def test_broken_json_says_where_it_breaks(shared_server: RunningServer) -> None:
    problem = refuse(post(shared_server, "/v1/jobs", b'{"a": ', JSON), 400)
    assert problem["type"].endswith("json-malformed")
    reason = "EOF while parsing a value at line 1 column 6"
    assert problem["detail"] == f"body is 'broken'; it must be JSON ({reason})"
    assert problem["field"] == "body"


def test_a_missing_member_is_called_missing(shared_server: RunningServer) -> None:
    problem = refuse(post(shared_server, "/v1/jobs", b'{"a": "x"}', JSON), 422)
    assert problem["detail"] == "b is missing; it must be given"
    assert (problem["field"], problem["value"]) == ("b", None)


def test_an_unknown_member_is_to_be_left_out(shared_server: RunningServer) -> None:
    problem = refuse(post(shared_server, "/v1/jobs", b'{"a":"x","b":"y","z":1}', JSON), 422)
    assert problem["detail"] == "z is 1; it must be left out: there is no such field"


def test_an_unknown_type_is_told_with_those_there_are(shared_server: RunningServer) -> None:
    tensor = {"datatype": "FP99", "shape": [1, 1], "data": [1]}
    asked = {"inputs": [{"name": name, **tensor} for name in "AB"]}
    path = "/v2/models/matmul/infer"
    problem = refuse(shared_server.client.post(path, json=asked), 422)
    assert problem["detail"].startswith("inputs.0.datatype is 'FP99'; it must be one of FP16, BF16")


def test_a_method_that_is_not_there_is_told_whatever_is_sent(shared_server: RunningServer) -> None:
    answer = shared_server.client.put("/v1/matmul", content=bytes(100_000), headers=NPY)
    problem = refuse(answer, 405)
    assert problem["detail"] == "Method Not Allowed: PUT /v1/matmul; allowed: POST"
    assert shared_server.client.get("/v1/me").status_code == 200
