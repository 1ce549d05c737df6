"""Connections: reused, replaced, after a fork, with TLS, and with early answers."""

import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.certificates import make_certificate
from tests.client.scripted_server import Received, answer, serve_script
from tests.server import RunningServer, Start, encode_npy
from wavetrim.client import Client, ServiceRefused, ServiceUnreachable

DEVICES = answer(b'{"devices": []}')


def test_a_connection_is_reused(connect: Callable[..., Any]) -> None:
    with serve_script([DEVICES], close=False) as url:
        client = connect(url, timeout=5, retries=0)
        for _ in range(3):
            client.devices()  # this server serves one connection at a time
    assert len(url.requests) == 3


def test_a_closed_connection_is_replaced(connect: Callable[..., Any]) -> None:
    stored = {"id": "m", "shape": [2, 2], "dtype": "float64", "bytes": 160}
    with serve_script([answer(str(stored).replace("'", '"').encode(), 201)]) as url:
        client = connect(url, retries=0)
        for _ in range(3):
            assert client.put(np.eye(2)).id == "m"
            time.sleep(0.1)  # until it is closed; what is sent before is lost


def test_a_forked_process_has_connections_of_its_own(shared_server: RunningServer) -> None:
    with Client(shared_server.url) as client:
        client.devices()
        child = os.fork()
        if child == 0:
            try:
                client.devices()
            except BaseException:
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        client.devices()


def test_a_request_has_the_line_headers_and_body_of_the_api(connect: Callable[..., Any]) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    with serve_script([answer(encode_npy(np.zeros((2, 1))))]) as url:
        connect(f"{url}/lab/", api_key="schlüssel").matmul(a, b, alpha=2.0, f=1, verify=True)
    (request,) = url.requests
    assert request.line == "POST /lab/v1/matmul?f=1&alpha=2.0&verify=true"
    assert request.body == encode_npy(a) + encode_npy(b.reshape(3, 1))
    assert request.headers["content-type"] == "application/x-npy"
    assert request.headers["content-length"] == str(len(request.body))
    assert request.headers["host"] == url.removeprefix("http://")
    assert request.headers["authorization"] == "Bearer schlüssel"


def test_a_refusal_during_an_upload_is_raised(
    connect: Callable[..., Any], start_server: Start
) -> None:
    small = start_server(max_matrix_bytes=2**20)
    client = connect(small.url)
    for _ in range(3):
        with pytest.raises(ServiceRefused, match="must be at most 1058576 bytes") as refused:
            client.put(np.zeros((4000, 4000)))
        assert refused.value.status == 413
    assert client.put(np.eye(2)).shape == (2, 2)


def test_a_refusal_without_reading_the_body_is_raised(connect: Callable[..., Any]) -> None:
    full = answer(b'{"title": "No room", "detail": "for 128 MB"}', 507)
    with (
        serve_script([full], close=False, read_body=False) as url,
        pytest.raises(ServiceRefused, match="No room: for 128 MB") as refused,
    ):
        connect(url, timeout=20).put(np.zeros((4000, 4000)))
    assert refused.value.status == 507


def test_only_a_trusted_certificate_is_accepted(
    connect: Callable[..., Any], tmp_path: Path
) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    array = np.arange(3_000_000.0).reshape(3000, 1000)

    def echo(request: Received) -> bytes:
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
