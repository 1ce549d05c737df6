"""What the log tells of a request, as text and as JSON, and what it never tells."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from tests.processes import wait_until
from tests.server import NPY, encode_npy, make_server_fixture

KEY = "a-key-that-nobody-may-read"
TRACE = "0af7651916cd43dd8448eb211c80319c"
IDS = {
    "X-Request-Id": "mine-17",
    "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
    "Authorization": f"Bearer {KEY}",
}

server = make_server_fixture(variables={"TZ": "Asia/Kolkata"}, log_format="json", api_key=KEY)


def find_lines(server, **fields):
    """The objects in the log that have these fields, once there are any."""

    def look():
        told = [json.loads(line) for line in server.read_log().splitlines()]
        return [line for line in told if fields.items() <= line.items()]

    return wait_until(look)


def test_where_it_serves_is_a_line_of_the_log(server):
    (line,) = find_lines(server, logger="wavetrim.service.server.foreground")
    assert line["message"] == f"wavetrim is serving on {server.url}"


def test_a_request_is_told_with_its_ids_its_caller_and_the_zone(server):
    began = datetime.now(UTC)
    body = encode_npy(np.full((7, 7), 1234.5678))
    query = "/v1/matmul?alpha=8765.4321"
    answer = server.client.post(query, content=2 * body, headers={**NPY, **IDS})
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "mine-17")
    (line,) = find_lines(server, request_id="mine-17")
    assert line["trace_id"] == TRACE
    assert (line["client"], line["method"], line["path"], line["route"], line["status"]) == (
        "127.0.0.1", "POST", "/v1/matmul", "/v1/matmul", 200,
    )  # fmt: skip
    assert 0 < line["seconds"] < 60
    assert line["time"].endswith("+05:30")
    assert abs((datetime.fromisoformat(line["time"]) - began).total_seconds()) < 60
    log = server.read_log()
    assert KEY not in log
    assert "1234.5678" not in log
    assert "8765.4321" not in log


def test_what_is_logged_of_a_job_has_the_trace_of_its_request(server):
    headers = {**NPY, "Authorization": f"Bearer {KEY}"}
    stored = server.client.post(
        "/v1/matrices", content=encode_npy(np.ones((9, 9))), headers=headers
    ).json()["id"]
    server.stop()
    (server.data_dir / "matrices" / f"{stored}.npy").write_bytes(b"changed")
    server.restart()
    server.client.headers.update(IDS)
    posted = server.client.post("/v1/jobs", json={"a": stored, "b": stored})
    assert server.wait_job(posted.json()["id"])["state"] == "failed"
    (told,) = find_lines(server, trace_id=TRACE, logger="wavetrim.service.jobs.run")
    assert "is damaged" in told["message"]


@pytest.mark.parametrize(
    "header", ["", "00-1-2-03", f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff-{TRACE}-{TRACE[:16]}-00"]
)
def test_a_trace_that_is_none_is_not_taken_over(server, header):
    identity = f"odd-{len(header)}-{header[:2]}"
    headers = {"traceparent": header, "X-Request-Id": identity}
    assert server.client.get("/v1/me", headers=headers).status_code in (200, 401)
    (line,) = find_lines(server, request_id=identity)
    assert "trace_id" not in line


def test_a_request_that_a_stop_cuts_is_a_line_of_the_log(start_server):
    server = start_server(drain_seconds=0, last_answers_seconds=1)
    name = server.upload(np.ones((3000, 3000)))
    with server.connect() as stalled:
        ask = f"GET /v1/matrices/{name}/data HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        stalled.sendall(ask.encode())
        assert stalled.recv(100).startswith(b"HTTP/1.1 200")
        server.stop()
    log = server.read_log()
    assert "the service stops: a request has been cut" in log
    assert "Traceback" not in log
