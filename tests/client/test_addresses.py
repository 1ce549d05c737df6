"""Addresses of services, and errors where there is none."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.scripted_server import answer, serve_script
from tests.command import invoke_command
from tests.server import find_free_port
from wavetrim.client import Client, ServiceTimeout, ServiceUnreachable
from wavetrim.client.wire.address import parse_address
from wavetrim.service.cli.exits import ExitCode


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://localhost", ("localhost", 80, "", False, "", "localhost")),
        ("http://127.0.0.1:8000/", ("127.0.0.1", 8000, "", False, "", "127.0.0.1:8000")),
        ("http://bücher.example/%20", ("bücher.example", 80, "", False, "/%20", "bücher.example")),
        ("https://[::1]:8443/lab/", ("::1", 8443, "", True, "/lab", "[::1]:8443")),
        ("/run/wavetrim.sock", ("", 0, "/run/wavetrim.sock", False, "", "localhost")),
        ("unix:/run/wavetrim.sock", ("", 0, "/run/wavetrim.sock", False, "", "localhost")),
        (Path("/run/w.sock"), ("", 0, "/run/w.sock", False, "", "localhost")),
    ],
)
def test_addresses_are_read(url: Any, place: tuple[Any, ...]) -> None:
    found = parse_address(url)
    read = (found.host, found.port, found.socket_path, found.tls, found.prefix, found.authority)
    assert read == place


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8000", "ftp://127.0.0.1", "http://", "", "unix:", "http://h:x"),
        *("http://h?a=b", "http://a..b", f"http://{'a' * 64}.b", "http://a b", "http://h/é"),
        *("http://h/a b", "http://h/a\r\nHost: b"),
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"url is .*; it must be http:// or https:// and a host"):
        Client(url)


@pytest.mark.parametrize("place", ["h", "h:8000/lab", "h:x", "[", "h/é"])
@pytest.mark.parametrize("user", ["user", "user:secret", ":secret", "", "a@b:secret"])
def test_a_user_and_a_password_in_an_address_are_refused_and_not_repeated(
    tmp_path: Path, user: str, place: str
) -> None:
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
    ],
)
def test_impossible_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Client(**options)


def test_an_unreachable_service_is_named(connect: Callable[..., Any], tmp_path: Path) -> None:
    for url in (f"http://127.0.0.1:{find_free_port()}", f"unix:{tmp_path}/missing.sock"):
        client = connect(url, retries=1)
        for name, arguments in (("devices", ()), ("health", ()), ("put", (np.eye(2),))):
            with pytest.raises(ServiceUnreachable, match=f"the service at {url} does not answer"):
                getattr(client, name)(*arguments)


@pytest.mark.parametrize(
    ("reply", "message"),
    [(answer(b"<html>"), "not JSON but '<html>'"), (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not answer")],
)
def test_an_answer_that_is_not_the_services_is_an_error(
    connect: Callable[..., Any], reply: bytes, message: str
) -> None:
    with serve_script([reply]) as url, pytest.raises(ServiceUnreachable, match=message):
        connect(url, retries=0).devices()


def test_a_silent_service_times_out(connect: Callable[..., Any]) -> None:
    with (
        serve_script([b""], close=False) as url,
        pytest.raises(ServiceTimeout, match=r"silent for 0\.2 s"),
    ):
        connect(url, timeout=0.2).devices()
    assert len(url.requests) == 1, "a request that timed out is retried"


def test_a_service_that_reads_nothing_times_out(connect: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        thread.start()
        client = connect(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.3)
        with pytest.raises(ServiceTimeout, match=r"silent for 0\.3 s"):
            client.put(np.zeros((3000, 3000)))
        thread.join()
        accepted[0].close()
