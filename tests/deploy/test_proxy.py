"""The service behind nginx: bodies both ways, refusals, kept connections and TLS."""

import contextlib
import json
import os
import pwd
import re
import signal
import socket
import ssl
import threading
import time

import httpx
import numpy as np
import pytest

from tests.certificates import make_certificate
from tests.needs import find_command
from tests.processes import running, wait_until
from tests.server import (
    NPY,
    ROOT,
    decode_npy,
    encode_npy,
    find_free_port,
    make_server_fixture,
    open_http,
)
from tests.service.api.matrices.test_uploads import cut, digest
from tests.service.api.wire.wire_server import make_head, read_answer

pytestmark = pytest.mark.needs("nginx")

KEY = "a-key-of-these-tests"
ACCESS = f"Authorization: Bearer {KEY}"
MIB = 2**20
A = np.random.default_rng(0).random((700, 900))
B = np.random.default_rng(1).random((900, 500))
CONTENT = encode_npy(A)

_CERTIFICATE = "ssl_certificate /etc/nginx/wavetrim.pem;"
_CERTIFICATES_KEY = "ssl_certificate_key /etc/nginx/wavetrim.key;"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextlib.contextmanager
def run_nginx(folder, upstream, *, buffering, tls=None):
    """Run nginx before a service until the block ends; yields its port.

    With buffering it receives a whole body before it calls the service.
    """
    port = find_free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    certificate, key = tls or (None, None)
    ssl = "" if tls is None else " ssl"
    for shown, used in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port}{ssl};"),
        (_CERTIFICATE, f"ssl_certificate {certificate};" if tls else ""),
        (_CERTIFICATES_KEY, f"ssl_certificate_key {key};" if tls else ""),
        ("server 127.0.0.1:8000;", f"server {upstream};"),
        ("request_buffering off;", f"request_buffering {'on' if buffering else 'off'};"),
    ):
        assert text.count(shown) == 1, shown
        text = text.replace(shown, used)
    temporary = "".join(f"{name}_temp_path {folder}/{name};\n" for name in _TEMPORARY)
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"user {pwd.getpwuid(os.geteuid()).pw_name};\n"
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log info;\n"
        f"events {{}}\nhttp {{\naccess_log {folder}/access.log;\n{temporary}{text}}}\n"
    )
    options = ["-e", f"{folder}/error.log", "-p", folder, "-c", configuration]

    def is_listening():
        socket.create_connection(("127.0.0.1", port)).close()
        return True

    with running([find_command("nginx"), *options], folder / "output.log", is_listening):
        yield port


service = make_server_fixture(
    has_socket=True, api_key=KEY, max_matrix_bytes=8 * MIB, max_storage_bytes=32 * MIB
)


@pytest.fixture(
    scope="module",
    params=[("tcp", False), ("tcp", True), ("unix", False)],
    ids=["tcp", "tcp-buffered", "unix"],
)
def proxied(request, service, tmp_path_factory):
    """A client of a proxy, with the key."""
    way, buffering = request.param
    upstream = f"127.0.0.1:{service.port}"
    if way == "unix":
        upstream = f"unix:{service.settings['unix_socket']}"
    folder = tmp_path_factory.mktemp("nginx")
    with run_nginx(folder, upstream, buffering=buffering) as port:
        headers = {"Authorization": f"Bearer {KEY}"}
        with open_http(f"http://127.0.0.1:{port}", headers=headers) as client:
            yield client


@pytest.mark.parametrize("chunked", [False, True])
def test_products_are_computed(proxied, chunked):
    body = CONTENT + encode_npy(B)
    content = cut(body, pieces=30) if chunked else body
    answer = proxied.post("/v1/matmul", content=content, headers=NPY)
    assert answer.status_code == 200, answer.text
    np.testing.assert_allclose(decode_npy(answer.content), A @ B, rtol=1e-12)


@pytest.mark.parametrize("chunked", [False, True])
def test_uploads_arrive_unchanged(proxied, chunked):
    content = cut(CONTENT, pieces=30) if chunked else CONTENT
    headers = {**NPY, "Content-Digest": digest(CONTENT)}
    stored = proxied.post("/v1/matrices", content=content, headers=headers)
    assert stored.status_code == 201, stored.text
    path = stored.headers["location"]
    assert np.array_equal(decode_npy(proxied.get(f"{path}/data").content), A)
    assert proxied.delete(path).status_code == 204


def refuse(proxied, path, content, *lines):
    """Send a whole body, whatever is answered; returns the status and the problem."""
    address = "127.0.0.1", proxied.base_url.port
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(make_head(path, len(content), *lines))
        with contextlib.suppress(ConnectionError):  # the proxy may have answered and closed
            connection.sendall(content)
        status, problem = read_answer(connection)
    return status, json.loads(problem)


def test_a_body_without_a_key_is_refused(proxied):
    status, problem = refuse(proxied, "/v1/matrices", CONTENT)
    assert (status, problem["type"]) == (401, "urn:wavetrim:problem:unauthorized")


@pytest.mark.parametrize("path", ["/v1/matrices", "/v1/matmul"])
def test_a_body_that_is_too_large_is_refused(proxied, path):
    status, problem = refuse(proxied, path, bytes(40 * MIB), ACCESS)
    assert (status, problem["field"]) == (413, "Content-Length")


def test_nginx_uses_no_connection_that_the_service_is_closing(service, tmp_path):
    headers = {"Authorization": f"Bearer {KEY}"}
    with (
        run_nginx(tmp_path, f"127.0.0.1:{service.port}", buffering=False) as port,
        open_http(f"http://127.0.0.1:{port}", headers=headers) as client,
    ):
        assert client.post("/v1/jobs", json={}).status_code == 422
        time.sleep(4.8)  # the service closes after 5 s, and is late now
        service.process.send_signal(signal.SIGSTOP)
        go_on = threading.Timer(0.5, service.process.send_signal, (signal.SIGCONT,))
        go_on.start()
        try:
            assert client.post("/v1/jobs", json={}).status_code == 422
        finally:
            go_on.join()


def test_tls_ends_at_the_proxy_which_names_the_caller(service, tmp_path):
    files = make_certificate(tmp_path)
    upstream = f"127.0.0.1:{service.port}"
    with run_nginx(tmp_path, upstream, buffering=False, tls=files) as port:
        trusted = ssl.create_default_context(cafile=str(files[0]))
        caller = httpx.HTTPTransport(verify=trusted, local_address="127.0.0.2")
        headers = {**NPY, "Authorization": f"Bearer {KEY}", "X-Request-Id": "from-afar"}
        forged = {"X-Forwarded-For": "198.51.100.7"}
        with httpx.Client(
            base_url=f"https://localhost:{port}", transport=caller, headers=headers, timeout=60
        ) as client:
            answer = client.post("/v1/matmul", content=CONTENT + encode_npy(B), headers=forged)
            assert answer.status_code == 200, answer.text
            np.testing.assert_allclose(decode_npy(answer.content), A @ B, rtol=1e-12)
        told = r"\[from-afar\] POST '/v1/matmul' 200 [\d.]+ ms for 127\.0\.0\.2\n"
        wait_until(lambda: re.search(told, service.read_log()) is not None)
        with pytest.raises(httpx.ConnectError, match="self-signed certificate"):
            httpx.get(f"https://localhost:{port}/healthz/live")
