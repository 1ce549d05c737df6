"""Who may call, under which name, and what no caller and no other process learns."""

import json
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.refusals import expect_refusal
from tests.server import make_server_fixture
from tests.service.api.wire.wire_server import exchange
from tests.service.tenants.tenants import OWN_KEY
from wavetrim.service.cursor import decode_mark

KEY = "schlüssel-0123456789"
OPEN_PATHS = (
    *("/", "/page/main.js", "/healthz/live", "/healthz/ready", "/metrics", "/openapi.json"),
    *("/docs", "/v2/health/live", "/v2/health/ready"),
)

PLACES = dict.fromkeys(("matrix_id", "job_id", "lease_id", "model_name", "version"), "x")

locked = make_server_fixture(api_key=KEY)


def call(server, method, path, key):
    headers = {} if key is None else {b"Authorization": b"Bearer " + key}
    return server.client.request(method, path, headers=headers)


@pytest.mark.parametrize("key", [None, b"wrong", KEY.encode()[:-1], KEY.encode() + b"0"])
def test_every_call_of_the_api_needs_the_key(locked, key):
    paths = locked.client.get("/openapi.json").json()["paths"]
    calls = [
        (method.upper(), path.format(**PLACES))
        for path in paths.keys() - OPEN_PATHS
        for method in paths[path]
    ]
    assert len(calls) >= 30
    for method, path in calls:
        response = call(locked, method, path, key)
        assert response.status_code == 401, (method, path)
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert response.headers["content-type"] == "application/problem+json"


def test_a_missing_or_wrong_key_is_told_how_to_send_it(locked):
    for headers in ({}, {b"Authorization": KEY.encode()}, {b"Authorization": b"Basic dTpw"}):
        refused = locked.client.get("/v1/me", headers=headers)
        assert refused.status_code == 401
        assert "Authorization: Bearer" in refused.json()["detail"]
        assert KEY not in refused.text
    assert call(locked, "GET", "/v1/me", KEY.encode()).status_code == 200
    detail = call(locked, "GET", "/v1/me", b"wrong").json()["detail"]
    assert detail == "the API key is not the service's, nor any caller's"
    described = locked.client.get("/openapi.json").json()["paths"]["/v1/me"]["get"]["responses"]
    of_all = {"X-Content-Type-Options", "X-Request-Id"}
    assert set(described["401"]["headers"]) == {"WWW-Authenticate", *of_all}


@pytest.mark.parametrize("path", OPEN_PATHS)
def test_health_metrics_and_the_description_are_open(locked, path):
    assert locked.client.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/v1/devices", "/nowhere", *OPEN_PATHS])
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "localhost.evil", "[", "[]", ""),
        *("me@localhost", "localhost/evil", "localhost#.evil.example", "localhost:80@evil.example"),
    ],
)
def test_without_a_key_foreign_names_are_refused(shared_server, host, path):
    expect_refusal(shared_server.client.get(path, headers={"Host": host}), 403, "Host")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "LOCALHOST:80", "[::1]:9"])
def test_without_a_key_loopback_names_are_taken(shared_server, host):
    assert shared_server.client.get("/v1/devices", headers={"Host": host}).status_code == 200


def test_two_host_headers_are_refused_with_a_key_and_without(locked, shared_server):
    for server in (locked, shared_server):
        for path in ("/v1/matrices", "/healthz/live"):
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example"
            status, problem = ask_raw(server, head)
            assert (status, problem["value"]) == (400, ["localhost", "evil.example"])


def ask_raw(server, head):
    status, body = exchange(server, f"{head}\r\n\r\n".encode())
    return status, json.loads(body)


def test_http_1_1_without_a_host_is_refused_with_a_key_and_without(locked, shared_server):
    for server in (locked, shared_server):
        for target in ("/healthz/live", "http://localhost/healthz/live"):
            status, problem = ask_raw(server, f"GET {target} HTTP/1.1")
            assert (status, problem["field"], problem["value"]) == (400, "Host", [])
        assert ask_raw(server, "GET /healthz/live HTTP/1.0")[0] == 200


@pytest.mark.parametrize(
    ("url", "host", "status"),
    [
        ("http://evil.example/v1/devices", "localhost", 403),
        ("http://evil.example:80/v1/devices?://localhost/", "localhost", 403),
        ("http://me@localhost/v1/devices", "localhost", 403),
        ("https://localhost.evil/v1/devices", "localhost", 403),
        ("http://localhost/v1/devices", "evil.example", 200),
        ("HTTP://[::1]:80/v1/devices", "evil.example", 200),
        ("/healthz/live?http://evil.example/", "localhost", 200),
    ],
)
def test_the_host_of_a_whole_url_is_checked_in_the_headers_place(shared_server, url, host, status):
    assert ask_raw(shared_server, f"GET {url} HTTP/1.1\r\nHost: {host}")[0] == status


@pytest.mark.parametrize("path", ["/v1/matrices/", "/v1/devices/", "/metrics/", "/docs/"])
def test_no_answer_sends_the_caller_to_the_host_that_it_named(locked, path):
    headers = {b"Host": b"evil.example", b"Authorization": b"Bearer " + KEY.encode()}
    response = locked.client.get(path, headers=headers, follow_redirects=False)
    assert response.status_code == 404
    assert "location" not in response.headers


def test_metrics_and_the_description_can_be_closed(start_server):
    server = start_server(api_key=KEY, metrics="off", docs="off")
    for path in ("/metrics", "/docs", "/openapi.json"):
        assert server.client.get(path).status_code == 404


def test_metrics_that_need_the_key_are_shown_to_callers_with_it(start_server):
    server = start_server(api_key=KEY, metrics="key")
    assert call(server, "GET", "/metrics", None).status_code == 401
    assert "wavetrim_jobs" in call(server, "GET", "/metrics", KEY.encode()).text


def test_the_engines_environment_holds_no_key_and_no_password(start_server):
    secret = "postgres-password-of-this-test"
    server = start_server(api_key=OWN_KEY, prefix=("env", f"PGPASSWORD={secret}"))
    environment = Path(f"/proc/{server.find_engine()}/environ").read_bytes()
    assert b"PATH=" in environment
    for word in (OWN_KEY.encode(), secret.encode(), b"WAVETRIM_"):
        assert word not in environment


def test_every_answer_forbids_browsers_to_guess_its_type(shared_server):
    for path in ("/", "/healthz/live", "/openapi.json", "/v1/jobs", "/v1/none", "/v2", "/metrics"):
        answer = httpx.get(f"{shared_server.url}{path}", timeout=60)
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"], path
    with shared_server.client.stream("GET", "/v1/jobs/events") as stream:
        assert stream.headers["x-content-type-options"] == "nosniff"
    many = {f"X-{i}": "1" for i in range(120)}
    refused = httpx.get(f"{shared_server.url}/healthz/live", headers=many)
    assert (refused.status_code, refused.headers["x-content-type-options"]) == (431, "nosniff")


def test_a_jobs_cursor_holds_no_count_of_all_jobs(shared_server):
    operand = shared_server.upload(np.eye(2))
    made = [shared_server.post_job(operand, operand) for _ in range(2)]
    page = shared_server.client.get("/v1/jobs?limit=1").json()
    assert decode_mark(page["next_cursor"], r"(.*)")[1] == f"before:{made[1]}"
    rest = shared_server.client.get(f"/v1/jobs?limit=1&cursor={page['next_cursor']}").json()
    assert rest["jobs"][0]["id"] == made[0]
    assert json.dumps(rest).count("sequence") == 0
