"""Where the service listens: TCP, TLS and a Unix socket, and what it refuses to listen on."""

import contextlib
import signal
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.certificates import make_certificate
from tests.command import StartedCommand, invoke_command, run_command, start_command
from tests.server import NPY, decode_npy, encode_npy, open_http
from tests.service.api.wire.wire_server import make_head, read_answer
from wavetrim.service.app import create_app
from wavetrim.service.cli.exits import ExitCode
from wavetrim.service.errors import SettingRefused
from wavetrim.service.settings import Settings
from wavetrim.service.unix_socket import claim_socket

A = np.random.default_rng(0).random((300, 400))


@contextmanager
def serve(
    folder: Path, addresses: int = 1, **variables: str
) -> Iterator[tuple[list[str], StartedCommand]]:
    """A service as a user starts it; yields the addresses that it prints."""
    with start_command(
        "serve", "--port", 0, "--data-dir", "data", folder=folder, **variables
    ) as process:
        try:
            lines = [process.stdout.readline() for _ in range(addresses)]
            assert all(lines), process.stderr.read()
            yield [line.removeprefix("wavetrim is serving on ").strip() for line in lines], process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


def check_service(client: httpx.Client) -> None:
    """Products and matrices, whose bodies are long enough to be pulled."""
    answer = client.post("/v1/matmul", content=encode_npy(A) + encode_npy(A.T.copy()), headers=NPY)
    assert answer.status_code == 200, answer.text
    np.testing.assert_allclose(decode_npy(answer.content), A @ A.T, rtol=1e-12)
    stored = client.post("/v1/matrices", content=encode_npy(A), headers=NPY).json()
    assert client.get(f"/v1/matrices/{stored['id']}/data").content == encode_npy(A)
    assert client.delete(f"/v1/matrices/{stored['id']}").status_code == 204


def test_a_unix_socket_beside_tcp_is_its_users_and_no_second_service_takes_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run" / "socket"
    with serve(tmp_path, 2, WAVETRIM_UNIX_SOCKET="run/socket") as (addresses, process):
        assert addresses[0].startswith("http://127.0.0.1:")
        assert addresses[1] == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        second = run_command(
            "serve", "--port", 0, "--data-dir", "other", folder=tmp_path,
            WAVETRIM_UNIX_SOCKET=str(path),
        )  # fmt: skip
        assert second.returncode == ExitCode.REFUSED
        assert "unix_socket" in second.stderr
        assert "no other running service listens" in second.stderr
        with open_http(path) as client:
            check_service(client)
        assert httpx.get(f"{addresses[0]}/healthz/live", verify=False).status_code == 200
    assert process.returncode == 0
    assert not path.exists()


def test_without_tcp_there_is_no_port_and_no_key_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    variables = {"WAVETRIM_TCP": "off", "WAVETRIM_HOST": "0.0.0.0"}
    with serve(tmp_path, WAVETRIM_UNIX_SOCKET=str(path), **variables) as (addresses, _):
        assert addresses == [f"unix:{path}"]
        with open_http(path) as client:
            check_service(client)


def test_tls_is_spoken_with_a_certificate(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    path = tmp_path / "socket"
    with serve(
        tmp_path,
        2,
        WAVETRIM_TLS_CERTIFICATE=str(certificate),
        WAVETRIM_TLS_KEY=str(key),
        WAVETRIM_UNIX_SOCKET=str(path),
    ) as (addresses, _):
        assert addresses[0].startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=addresses[0], verify=trusted, timeout=60) as client:
            check_service(client)
        with open_http(path) as client:
            assert client.get("/healthz/live").status_code == 200, "it is not encrypted there"


def test_512_callers_at_once_are_let_in_by_the_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with contextlib.ExitStack() as stack, serve(tmp_path, 2, WAVETRIM_UNIX_SOCKET=str(path)) as (
        _, process,
    ):  # fmt: skip
        process.send_signal(signal.SIGSTOP)  # nobody is accepted meanwhile
        callers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(512)]
        for caller in callers:
            caller.setblocking(False)
        refused = [code for caller in callers if (code := caller.connect_ex(str(path)))]
        process.send_signal(signal.SIGCONT)
        assert refused == []
        for caller in callers:
            caller.settimeout(30)
            caller.sendall(make_head("/healthz/live", None, method="GET"))
        assert {read_answer(caller)[0] for caller in callers} == {200}


def test_the_socket_of_a_killed_service_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serve(tmp_path, 2, WAVETRIM_UNIX_SOCKET=str(path)) as (_, process):
        process.kill()
        process.wait(10)
    assert path.is_socket()
    with serve(tmp_path, 2, WAVETRIM_UNIX_SOCKET=str(path)), open_http(path) as client:
        assert client.get("/healthz/live").status_code == 200


def test_what_lies_at_the_path_is_not_removed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(SettingRefused, match="there is a file already"), claim(file):
        pass
    assert file.read_text() == "mine"
    foreign = tmp_path / "foreign"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(foreign))
        listener.listen()
        with pytest.raises(SettingRefused, match="nobody else listens"), claim(foreign):
            pass
        assert foreign.is_socket()
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(SettingRefused, match="there is a file already"), claim(link):
        pass


def claim(path: Path) -> AbstractContextManager[socket.socket]:
    return claim_socket(path)


def test_a_path_that_cannot_be_an_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match="at most 107 bytes"), claim(tmp_path / ("x" * 120)):
        pass
    (tmp_path / "file").touch()
    inside = tmp_path / "file" / "socket"
    with pytest.raises(SettingRefused, match="a socket can be made"), claim(inside):
        pass


@pytest.mark.parametrize(
    ("variables", "field"),
    [
        ({"WAVETRIM_TCP": "off"}, "tcp"),
        ({"WAVETRIM_TCP": "maybe"}, "WAVETRIM_TCP is 'maybe'"),
        ({"WAVETRIM_TLS_KEY": "key.pem"}, "tls_certificate"),
        ({"WAVETRIM_TLS_CERTIFICATE": "certificate.pem"}, "tls_key"),
        ({"WAVETRIM_TLS_CERTIFICATE": "none", "WAVETRIM_TLS_KEY": "key.pem"}, "tls_certificate"),
        (
            {
                "WAVETRIM_TLS_CERTIFICATE": "locked/certificate.pem",
                "WAVETRIM_TLS_KEY": "locked/key.pem",
            },
            "tls_certificate",
        ),
    ],
)
def test_settings_that_cannot_be_listened_by_are_refused_by_name(
    tmp_path: Path, variables: dict[str, str], field: str
) -> None:
    (tmp_path / "locked").mkdir()
    make_certificate(tmp_path)
    make_certificate(tmp_path / "locked", password=b"ab")
    refused = invoke_command("serve", "--port", 0, folder=tmp_path, **variables)
    assert refused.exit_code == ExitCode.REFUSED
    assert field in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_unix_socket_is_no_network(tmp_path: Path) -> None:
    settings = Settings(host="0.0.0.0", tcp="off", unix_socket=tmp_path / "s", data_dir=tmp_path)
    assert settings.on_loopback
    create_app(settings)
    with pytest.raises(SettingRefused, match="host"):
        create_app(Settings(host="0.0.0.0", unix_socket=tmp_path / "s", data_dir=tmp_path))
