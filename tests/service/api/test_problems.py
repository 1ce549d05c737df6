"""Errors as problem documents: the table, and what the running service answers."""

import asyncio
import gzip
import json
import socket
import struct

import httpx
import numpy as np
import pytest

from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import NPY
from wavetrim.scheduler.errors import PlanError
from wavetrim.service import errors
from wavetrim.service.api.jobs.jobs import MOST_LIST_BYTES
from wavetrim.service.api.problems import MEDIA_TYPE, describe_error
from wavetrim.service.app import create_app
from wavetrim.service.jobs import errors as job_errors
from wavetrim.service.storage import errors as storage_errors


def list_errors(root):
    yield root
    for child in root.__subclasses__():
        yield from list_errors(child)


def test_every_refusal_of_a_field_is_a_client_error_with_field_value_and_limit():
    modules = (errors.__name__, job_errors.__name__, storage_errors.__name__)
    found = [e for e in list_errors(errors.FieldProblem) if e.__module__ in modules]
    assert len(found) > 10
    for error_class in found:
        if error_class.__init__ is errors.FieldProblem.__init__:
            document = json.loads(describe_error(error_class("rows", 7, "at most 5")).body)
            assert 400 <= document["status"] < 500 or error_class is storage_errors.StorageFull
            told = document["field"], document["value"], document["limit"]
            assert told == ("rows", 7, "at most 5")
            assert document["detail"] == "rows is 7; it must be at most 5"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (storage_errors.NpyError("format", "zip", ".npy"), 400),
        (errors.Unauthorized("no key"), 401),
        (storage_errors.MatrixNotFound("x"), 404),
        (job_errors.JobNotFound("x"), 404),
        (job_errors.OperandNotFound("a", "x"), 404),
        (storage_errors.MatrixInUse("x", ["j"]), 409),
        (job_errors.JobStateConflict("x", "failed", "queued"), 409),
        (errors.BodyTooLarge("body", 2, "1"), 413),
        (storage_errors.DtypeRefused("descr", ">f4", "<f4"), 415),
        (errors.RangeNotSatisfiable("bytes=9-", 5), 416),
        (job_errors.ShapesDiffer("b", "(2, 3)", "4 rows"), 422),
        (PlanError("f", 9, "0…5"), 422),
        (job_errors.QueueFull("queued jobs", 2, 1, 3), 429),
        (errors.Draining(3), 503),
        (storage_errors.StorageFull("matrix size", 9, "5"), 507),
        (job_errors.JobFailed("plan", "no"), 422),
        (job_errors.JobFailed("cancelled", "no"), 409),
        (job_errors.JobFailed("memory", "no"), 507),
        (job_errors.JobFailed("timeout", "no"), 504),
        (job_errors.JobFailed("device", "no"), 500),
    ],
)
def test_the_table_gives_each_error_its_status(error, status):
    response = describe_error(error)
    assert response.status_code == status
    assert json.loads(bytes(response.body))["detail"] == str(error)


@pytest.mark.parametrize(
    "error", [job_errors.QueueFull("queued jobs", 2, 1, 3), errors.Draining(3)]
)
def test_busy_answers_say_when_to_come_again(error):
    assert describe_error(error).headers["retry-after"] == "3"


def test_an_unexpected_error_tells_an_incident_and_nothing_else(caplog):
    app = create_app()

    @app.get("/break")
    def break_down():
        raise RuntimeError("a secret of the inside")

    response = asyncio.run(call(app, "/break"))
    problem = expect_refusal(response, 500)
    assert "secret" not in response.text
    assert "RuntimeError" not in response.text
    assert problem["incident"] in caplog.text
    assert "a secret of the inside" in caplog.text
    assert response.headers["x-request-id"]


def test_clients_that_leave_in_the_middle_are_no_incidents(shared_server):
    stored = shared_server.upload(np.ones((1500, 1500)))
    head = (
        "Host: localhost\r\nX-Request-Id: gone-{}\r\nContent-Length: {}\r\nContent-Type: {}\r\n\r\n"
    )
    requests = [
        "POST /v1/jobs HTTP/1.1\r\n" + head.format(0, 100, "application/json") + '{"a":',
        "POST /v1/matrices HTTP/1.1\r\n" + head.format(1, 10_000, "application/x-npy"),
        f"GET /v1/matrices/{stored}/data HTTP/1.1\r\n" + head.format(2, 0, "text/plain"),
    ]
    for request in requests:
        with socket.create_connection(("127.0.0.1", shared_server.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(request.encode())
            if request.startswith("GET"):
                connection.recv(1000)
    names = [f"[gone-{number}] " for number in range(3)]
    wait_until(lambda: all(name in shared_server.read_log() for name in names))
    log = shared_server.read_log()
    lines = [line for line in log.splitlines() if "[gone-" in line]
    assert len(lines) == 3, lines
    assert not any("incident" in line or "Traceback" in line for line in lines)
    assert shared_server.client.delete(f"/v1/matrices/{stored}").status_code == 204


async def call(app, path):
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path)


def test_unknown_paths_and_methods_are_problems(shared_server):
    problem = expect_refusal(shared_server.client.get("/v2/matrices"), 404)
    assert "/v2/matrices" in problem["detail"]
    response = shared_server.client.patch("/v1/jobs")
    expect_refusal(response, 405)
    assert response.headers["allow"] == "DELETE, GET, HEAD, POST"


def test_a_wrong_method_is_refused_before_its_body(shared_server):
    digest = {"Content-Digest": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"}
    for path in ("/v1/matrices", "/v2/models/matmul/infer"):
        expect_refusal(shared_server.client.patch(path, content=b"{}", headers=digest), 405)


def test_schema_errors_name_field_value_and_limit(shared_server):
    refused = shared_server.client.get("/v1/plan?m=0&n=4")
    problem = expect_refusal(refused, 422, "m", value="0", limit="greater than or equal to 1")
    assert [broken["field"] for broken in problem["errors"]] == ["m", "k"]


@pytest.mark.parametrize(
    ("content", "headers", "status", "members"),
    [
        (b"{}", {"Content-Encoding": "gzip"}, 415, ("Content-Encoding", "gzip", "what its body")),
        (gzip.compress(b" " * MOST_LIST_BYTES + b"{}"), {"Content-Encoding": "gzip"}, 413,
         ("body", f"more than {MOST_LIST_BYTES} bytes", "at most")),
        (b"{}", {"Content-Encoding": "br"}, 415, ("Content-Encoding", "br", "identity")),
    ],
    ids=["gzip", "a bomb", "br"],
)  # fmt: skip
def test_json_that_would_be_misread_is_refused(shared_server, content, headers, status, members):
    response = shared_server.client.post(
        "/v1/jobs", content=content, headers={"Content-Type": "application/json", **headers}
    )
    field, value, limit = members
    expect_refusal(response, status, field, value=value, limit=limit)


def test_request_ids_come_back_and_are_made_where_they_are_missing_or_odd(shared_server):
    sent = shared_server.client.get("/healthz/live", headers={"X-Request-Id": "build-17.a"})
    assert sent.headers["x-request-id"] == "build-17.a"
    odd = shared_server.client.get("/healthz/live", headers={"X-Request-Id": 'a b"c'})
    assert len(odd.headers["x-request-id"]) == 32
    shared_server.client.get("/v1/matrices/none", headers={"X-Request-Id": "find-me"})
    shared_server.client.get("/healthz/live")  # by now the line of the one before is written
    assert "[find-me] GET '/v1/matrices/none' 404" in shared_server.read_log()


def test_no_answer_names_a_file_or_a_line_of_code(shared_server):
    answers = [
        shared_server.client.get("/v1/matrices/%00"),
        shared_server.client.get("/v1/matrices/..%2f..%2fetc%2fpasswd"),
        shared_server.client.get("/v1/jobs?limit=x&cursor=%ff"),
        shared_server.client.post("/v1/matrices", content=b"\x93NUMPY\xff\xff", headers=NPY),
        shared_server.client.post("/v1/jobs", json=[[[]]]),
        shared_server.client.get("/v1/plan?m=1&n=1&k=1&dtype=float31"),
    ]
    for answer in answers:
        assert 400 <= answer.status_code < 500
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert "Traceback" not in answer.text
        assert ".py" not in answer.text
