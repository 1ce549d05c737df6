"""Addresses and connections: what is refused, reused, replaced; TLS, silence, early answers."""

import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from tests.certificates import make_certificate
from tests.client.scripted_server import answer, serve_script
from tests.command import invoke_command
from tests.limit import allow
from tests.server import encode_npy, find_free_port
from wavetrim.client import Client, ServiceRefused, ServiceTimeout, ServiceUnreachable
from wavetrim.service.cli.exits import ExitCode

DEVICES = answer(b'{"devices": []}')
STORED = answer(b'{"id": "m", "shape": [2, 2], "dtype": "float64", "bytes": 160}', 201)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("http://bücher.example/%20", "http://bücher.example/%20"),
        ("https://[::1]:8443/lab/", "https://[::1]:8443/lab"),
        ("/run/wavetrim.sock", "unix:/run/wavetrim.sock"),
        ("unix:/run/wavetrim.sock", "unix:/run/wavetrim.sock"),
        (Path("/run/w.sock"), "unix:/run/w.sock"),
    ],
)
def test_addresses_are_read(url, shown):
    assert Client(url).url == shown


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8000", "ftp://127.0.0.1", "http://", "", "unix:", "http://h:x"),
        *("http://h?a=b", "http://a..b", f"http://{'a' * 64}.b", "http://a b", "http://h/é"),
        *("http://h/a b", "http://h/a\r\nHost: b"),
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match=r"url is .*; it must be http:// or https:// and a host"):
        Client(url)


@pytest.mark.parametrize("place", ["h", "h:8000/lab", "h:x", "[", "h/é"])
@pytest.mark.parametrize("user", ["user", "user:secret", ":secret", "", "a@b:secret"])
def test_a_user_and_a_password_in_an_address_are_refused_and_not_repeated(tmp_path, user, place):
    url = f"http://{user}@{place}"
    with pytest.raises(ValueError, match=r"url is 'http://…@.*; it must be ") as refused:
        Client(url)
    assert "secret" not in str(refused.value)
    told = invoke_command("status", "--url", url, folder=tmp_path)
    assert told.exit_code == ExitCode.REFUSED
    assert told.stderr.startswith("wavetrim: --url is 'http://…@")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout is 0; it must be a positive number"),
        ({"retries": -1}, "retries is -1; it must be at least 0"),
        *(
            ({"api_key": key}, rf"api_key has {len(key)} characters \(not shown\)")
            for key in ("", "secret ", " secret", "secret\n", "sec\nret", "secret\u00a0")
        ),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message) as refused:
        Client(**options)
    assert "sec" not in str(refused.value).replace("seconds", "")


def test_an_unreachable_service_is_named(connect, tmp_path):
    for url in (f"http://127.0.0.1:{find_free_port()}", f"unix:{tmp_path}/missing.sock"):
        client = connect(url, retries=1)
        for name, arguments in (("devices", ()), ("health", ()), ("put", (np.eye(2),))):
            with pytest.raises(ServiceUnreachable, match=f"the service at {url} does not answer"):
                getattr(client, name)(*arguments)


@pytest.mark.parametrize(
    ("reply", "message"),
    [(answer(b"<html>"), "not JSON but '<html>'"), (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not answer")],
)
def test_an_answer_that_is_not_the_services_is_an_error(connect, reply, message):
    with serve_script([reply]) as url, pytest.raises(ServiceUnreachable, match=message):
        connect(url, retries=0).devices()


def test_a_silent_service_times_out(connect):
    silent = serve_script([b""], close=False)
    with silent as url, pytest.raises(ServiceTimeout, match=r"silent for 0\.2 s"):
        connect(url, timeout=0.2).devices()
    assert len(url.requests) == 1, "a request that timed out is not repeated"


def test_a_service_that_reads_nothing_times_out(connect):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        thread.start()
        client = connect(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.3)
        with pytest.raises(ServiceTimeout, match=r"silent for 0\.3 s"):
            client.put(np.zeros((3000, 3000)))
        thread.join()
        accepted[0].close()


@pytest.fixture
def full_queue(tmp_path):
    """A Unix socket that listens, and where no further connection finds room."""
    path = str(tmp_path / "full.sock")
    with (
        socket.create_server(path, family=socket.AF_UNIX, backlog=0) as listener,
        socket.socket(socket.AF_UNIX) as first,
    ):
        first.connect(path)
        yield listener


def test_a_client_waits_while_a_unix_sockets_queue_is_full(connect, full_queue):
    client = connect(full_queue.getsockname(), retries=0)
    with ThreadPoolExecutor(1) as pool:
        devices = pool.submit(client.devices)
        time.sleep(0.2)
        assert not devices.done()
        full_queue.accept()[0].close()
        with full_queue.accept()[0] as accepted:
            accepted.recv(65536)
            accepted.sendall(DEVICES)
            assert devices.result() == {"devices": []}


def test_a_unix_socket_whose_queue_stays_full_times_out(connect, full_queue, monkeypatch):
    monkeypatch.setattr("wavetrim.client.wire.address.CONNECT_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(ServiceTimeout, match="does not answer: silent for"):
        connect(full_queue.getsockname()).devices()
    assert 0.2 < time.monotonic() - began < allow(5)


@pytest.mark.parametrize("seconds", [1e7, float("inf")])
def test_a_timeout_may_be_longer_than_the_systems(connect, shared_server, seconds):
    client = connect(shared_server.url, timeout=seconds)
    assert client.submit([[1]], [[1]]).wait(timeout_seconds=seconds).state == "succeeded"


def test_a_connection_is_reused(connect):
    with serve_script([DEVICES], close=False) as url:
        client = connect(url, timeout=5, retries=0)
        for _ in range(3):
            client.devices()  # this server serves one connection at a time
    assert len(url.requests) == 3


def test_a_closed_connection_is_replaced(connect):
    with serve_script([STORED]) as url:
        client = connect(url, retries=0)
        for _ in range(3):
            assert client.put(np.eye(2)).id == "m"
            time.sleep(allow(0.1))  # until it is closed; what is sent before is lost


def test_a_forked_process_has_connections_of_its_own(shared_server):
    with Client(shared_server.url) as client:
        client.devices()
        child = get_context("fork").Process(target=client.devices)
        child.start()
        child.join()
        assert child.exitcode == 0
        client.devices()


def test_a_request_has_the_line_headers_and_body_of_the_api(connect):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    with serve_script([answer(encode_npy(np.zeros((2, 1))))]) as url:
        connect(f"{url}/lab/", api_key="schlüssel").matmul(a, b, alpha=2.0, f=1, verify=True)
    (request,) = url.requests
    path, _, query = request.line.partition("?")
    assert path == "POST /lab/v1/matmul"
    assert sorted(query.split("&")) == ["alpha=2.0", "f=1", "verify=true"]
    assert request.body == encode_npy(a) + encode_npy(b.reshape(3, 1))
    assert request.headers["content-type"] == "application/x-npy"
    assert request.headers["content-length"] == str(len(request.body))
    assert request.headers["host"] == url.removeprefix("http://")
    assert request.headers["authorization"] == "Bearer schlüssel"


def test_a_refusal_during_an_upload_is_raised(connect, start_server):
    small = start_server(max_matrix_bytes=2**20)
    client = connect(small.url)
    for _ in range(3):
        with pytest.raises(ServiceRefused, match="must be at most 1058576 bytes") as refused:
            client.put(np.zeros((4000, 4000)))
        assert refused.value.status == 413
    assert client.put(np.eye(2)).shape == (2, 2)


def test_a_refusal_without_reading_the_body_is_raised(connect):
    full = answer(b'{"title": "No room", "detail": "for 128 MB"}', 507)
    with (
        serve_script([full], close=False, read_body=False) as url,
        pytest.raises(ServiceRefused, match="No room: for 128 MB") as refused,
    ):
        connect(url, timeout=20).put(np.zeros((4000, 4000)))
    assert refused.value.status == 507


def test_only_a_trusted_certificate_is_accepted(connect, tmp_path):
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    array = np.arange(3_000_000.0).reshape(3000, 1000)

    def echo(request):
        return answer(request.body[: len(encode_npy(array))])

    with serve_script([echo], close=False, context=context) as url:
        trusting = ssl.create_default_context(cafile=str(certificate))
        client = connect(url, tls_context=trusting)
        for _ in range(3):
            np.testing.assert_array_equal(client.matmul(array, np.eye(1000)), array)
    with (
        serve_script([echo], context=context) as url,
        pytest.raises(ServiceUnreachable, match="certificate"),
    ):
        connect(url, retries=0).devices()
