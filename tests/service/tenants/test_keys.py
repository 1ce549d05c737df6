"""Keys of several callers: made and revoked while the service runs, each with its scopes."""

import numpy as np
import pytest

from tests.command import invoke_command
from tests.processes import wait_until
from tests.server import NPY, encode_npy, make_server_fixture
from tests.service.tenants.tenants import OWN_KEY as OWN
from tests.service.tenants.tenants import manage_keys as keys

server = make_server_fixture(api_key=OWN, metrics="key")


def ask(server, key, method="GET", path="/v1/matrices"):
    content = encode_npy(np.ones((2, 2))) if method == "POST" else b""
    headers = {**NPY, "Authorization": f"Bearer {key}"}
    return server.client.request(method, path, headers=headers, content=content).status_code


def test_a_key_is_taken_until_it_is_revoked(server):
    key = keys(server, "add", "ada")
    assert len(key) >= 40
    assert key.isprintable()
    wait_until(lambda: ask(server, key) == 200)
    assert ask(server, key, "POST") == 201
    assert ask(server, key[:-1]) == ask(server, key + "x") == 401
    keys(server, "revoke", "ada")
    wait_until(lambda: ask(server, key) == 401)
    assert ask(server, OWN) == 200
    assert "revoked" in keys(server, "list")


def test_a_key_is_for_its_scopes_only(server):
    made = {scope: keys(server, "add", scope, "--scope", scope) for scope in ("read", "compute")}
    admin = keys(server, "add", "root", "--scope", "admin")
    wait_until(lambda: ask(server, admin) == 200)
    calls = [("GET", "/v1/matrices"), ("POST", "/v1/matrices"), ("DELETE", "/v1/jobs/none")]
    calls += [("POST", "/v1/matmul"), ("GET", "/v1/jobs/none/result"), ("GET", "/metrics")]
    calls += [("DELETE", "/v1/matrices/none")]
    answers = {
        name: [ask(server, key, *call) for call in calls]
        for name, key in {**made, "admin": admin, "own": OWN}.items()
    }
    assert answers["read"] == [200, 403, 403, 403, 404, 403, 403]
    assert answers["compute"] == [403, 201, 404, 400, 403, 403, 404]
    assert answers["admin"] == answers["own"] == [200, 201, 404, 400, 404, 200, 404]


def test_no_key_is_kept_or_logged(server):
    key = keys(server, "add", "once")
    wait_until(lambda: ask(server, key) == 200)
    for path in server.data_dir.glob("wavetrim.db*"):
        assert key.encode() not in path.read_bytes()
    assert key not in server.read_log()
    assert key not in keys(server, "list")


@pytest.mark.parametrize(
    "arguments", [("add", "a b"), ("add", ""), ("add", "x", "--scope", "all"), ("revoke", "nobody")]
)
def test_names_and_scopes_that_are_none_are_refused(tmp_path, arguments):
    done = invoke_command("keys", *arguments, folder=tmp_path)
    assert done.exit_code == 2, done.output


def test_a_name_has_one_key_for_ever(tmp_path):
    for status in (0, 2):
        assert invoke_command("keys", "add", "ada", folder=tmp_path).exit_code == status
    assert (tmp_path / "wavetrim-data" / "wavetrim.db").stat().st_mode & 0o077 == 0
    assert invoke_command("keys", "revoke", "ada", folder=tmp_path).exit_code == 0
    assert invoke_command("keys", "add", "ada", folder=tmp_path).exit_code == 2


def test_a_service_without_a_key_asks_for_one_as_soon_as_one_was_made_and_ever_after(start_server):
    server = start_server()
    assert server.client.get("/v1/matrices").status_code == 200
    keys(server, "add", "ada")
    wait_until(lambda: server.client.get("/v1/matrices").status_code == 401)
    keys(server, "revoke", "ada")
    server.stop()
    server.restart()
    assert server.client.get("/v1/matrices").status_code == 401
