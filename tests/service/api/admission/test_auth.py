"""Who may call, and under which name."""

import json

import pytest

from tests.refusals import expect_refusal
from tests.server import make_server_fixture
from tests.service.api.wire.wire_server import exchange

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
