"""Who may call /v1."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server import RunningServer

KEY = "schlüssel-0123456789"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("locked") / "data", api_key=KEY)
    yield running
    running.stop()


def list_calls(server: RunningServer) -> list[tuple[str, str]]:
    paths = server.client.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), path.format(matrix_id="x", job_id="x", lease_id="x"))
        for path, operations in paths.items()
        for method in operations
    ]


def call(server: RunningServer, method: str, path: str, key: bytes | None) -> httpx.Response:
    headers = {} if key is None else {b"Authorization": b"Bearer " + key}
    return server.client.request(method, path, headers=headers)


@pytest.mark.parametrize("key", [None, b"wrong", KEY.encode()[:-1], KEY.encode() + b"0"])
def test_every_v1_call_needs_the_key(locked: RunningServer, key: bytes | None) -> None:
    calls = [(method, path) for method, path in list_calls(locked) if path.startswith("/v1")]
    assert len(calls) >= 10
    for method, path in calls:
        response = call(locked, method, path, key)
        assert response.status_code == 401, (method, path)
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert response.headers["content-type"] == "application/problem+json"


def test_with_the_key_calls_are_answered(locked: RunningServer) -> None:
    assert call(locked, "GET", "/v1/devices", KEY.encode()).status_code == 200
    assert call(locked, "GET", "/v1/matrices/x", KEY.encode()).status_code == 404


def test_other_schemes_are_refused(locked: RunningServer) -> None:
    response = locked.client.get("/v1/devices", auth=("user", "password"))
    assert response.status_code == 401


@pytest.mark.parametrize("path", ["/healthz/live", "/metrics", "/openapi.json", "/docs"])
def test_health_metrics_and_the_description_are_open(locked: RunningServer, path: str) -> None:
    assert locked.client.get(path).status_code == 200


def test_the_key_is_not_logged(locked: RunningServer) -> None:
    call(locked, "GET", "/v1/devices", KEY.encode())
    assert KEY not in locked.read_log()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil", "[", ""])
def test_without_a_key_foreign_names_are_refused(shared_server: RunningServer, host: str) -> None:
    response = shared_server.client.get("/v1/devices", headers={"Host": host})
    assert response.status_code == 403
    assert response.json()["field"] == "Host"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "LOCALHOST:80", "[::1]:9"])
def test_without_a_key_loopback_names_are_taken(shared_server: RunningServer, host: str) -> None:
    assert shared_server.client.get("/v1/devices", headers={"Host": host}).status_code == 200
