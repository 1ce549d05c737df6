"""`wavetrim serve` and `health`: where a service listens, how it starts, drains and stops."""

import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, chdir, contextmanager

import httpx
import numpy as np
import pytest

from tests.certificates import make_certificate
from tests.command import invoke_command, make_environment, run_command, start_command
from tests.processes import wait_until
from tests.server import NPY, decode_npy, encode_npy, find_free_port, open_http
from tests.service.api.wire.wire_server import make_head, read_answer
from wavetrim.service.cli.exits import ExitCode

A = np.random.default_rng(0).random((300, 400))


@contextmanager
def serve(folder, **variables):
    """A service as a user starts it; yields the addresses that it prints, and stops it."""
    settings = {"WAVETRIM_PORT": "0", "WAVETRIM_DATA_DIR": "data", **variables}
    count = (settings.get("WAVETRIM_TCP") != "off") + ("WAVETRIM_UNIX_SOCKET" in settings)
    with start_command("serve", folder=folder, **settings) as process:
        try:
            lines = [process.stdout.readline() for _ in range(count)]
            assert all(lines), process.stderr.read()
            yield [line.removeprefix("wavetrim is serving on ").strip() for line in lines], process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


def check_service(client):
    """Products and matrices, whose bodies are long enough to be pulled."""
    answer = client.post("/v1/matmul", content=encode_npy(A) + encode_npy(A.T.copy()), headers=NPY)
    assert answer.status_code == 200, answer.text
    np.testing.assert_allclose(decode_npy(answer.content), A @ A.T, rtol=1e-12)
    stored = client.post("/v1/matrices", content=encode_npy(A), headers=NPY).json()
    assert client.get(f"/v1/matrices/{stored['id']}/data").content == encode_npy(A)
    assert client.delete(f"/v1/matrices/{stored['id']}").status_code == 204


def check_health(folder, **variables):
    """`health` finds a service by the settings that it was started with."""
    wait_until(lambda: invoke_command("health", folder=folder, **variables).exit_code == 0)
    told = invoke_command("health", folder=folder, HTTP_PROXY="http://127.0.0.1:1", **variables)
    assert re.fullmatch(r"the service at \S+ is ready\n", told.stdout)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_it_serves_a_folder_of_its_own_until_a_signal(tmp_path, number):
    with serve(tmp_path) as ((url,), process):
        assert httpx.get(f"{url}/v1/jobs", verify=False).status_code == 200
        second = run_command("serve", "--port", 0, "--data-dir", "data", folder=tmp_path)
        process.send_signal(number)
        output, log = process.communicate(timeout=30)
        assert (process.returncode, output) == (0, ""), "the address is all of standard output"
    assert "Traceback" not in log
    assert "/v1/jobs" not in log, "requests are logged only when asked for"
    assert second.returncode == ExitCode.REFUSED
    said = second.stderr.splitlines()[-1]
    assert f"a folder that no other running service uses, as process {process.pid} on " in said
    assert "Traceback" not in second.stderr
    assert second.stdout == ""


def test_under_nohup_it_outlives_its_terminal_and_its_first_line_is_its_pages_address(tmp_path):
    command = ["nohup", sys.executable, "-m", "wavetrim", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--data-dir", "data"],
        cwd=tmp_path,
        env=make_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("wavetrim is serving on ").strip()
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert "<title>" in httpx.get(url, verify=False).text
        process.terminate()
    assert process.returncode == 0


def test_a_unix_socket_beside_tcp_is_its_users_and_no_second_service_takes_it(tmp_path):
    path = tmp_path / "run" / "socket"
    with serve(tmp_path, WAVETRIM_UNIX_SOCKET="run/socket") as (addresses, process):
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


def test_without_tcp_there_is_no_port_and_no_key_is_needed(tmp_path):
    path = tmp_path / "socket"
    variables = {"WAVETRIM_UNIX_SOCKET": str(path), "WAVETRIM_TCP": "off"}
    with serve(tmp_path, WAVETRIM_HOST="0.0.0.0", **variables) as (addresses, process):
        assert addresses == [f"unix:{path}"]
        with open_http(path) as client:
            check_service(client)
        check_health(tmp_path, **variables)
        process.kill()
        process.wait(10)
    assert path.is_socket()
    gone = invoke_command("health", folder=tmp_path, **variables)
    assert (gone.exit_code, "/socket" in gone.stderr) == (ExitCode.UNREACHABLE, True)
    with serve(tmp_path, **variables), open_http(path) as client:  # it replaces the socket
        assert client.get("/healthz/live").status_code == 200


def test_tls_is_spoken_with_a_certificate(tmp_path):
    certificate, key = make_certificate(tmp_path)
    path = tmp_path / "socket"
    tls = {
        "WAVETRIM_TLS_CERTIFICATE": str(certificate),
        "WAVETRIM_TLS_KEY": str(key),
        "WAVETRIM_PORT": str(find_free_port()),
    }
    with serve(tmp_path, WAVETRIM_UNIX_SOCKET=str(path), **tls) as (addresses, _):
        assert addresses[0].startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=addresses[0], verify=trusted, timeout=60) as client:
            check_service(client)
        check_health(tmp_path, **tls)
        with open_http(path) as client:
            assert client.get("/healthz/live").status_code == 200, "it is not encrypted there"


def test_health_tells_what_is_missing(tmp_path):
    port = str(find_free_port())
    variables = {"WAVETRIM_PORT": port, "WAVETRIM_HOST": "0.0.0.0", "WAVETRIM_API_KEY": "k" * 32}
    with serve(tmp_path, **variables) as (_, process):
        check_health(tmp_path, **variables)
        shutil.rmtree(tmp_path / "data" / "matrices")
        missing = invoke_command("health", folder=tmp_path, **variables)
        assert missing.exit_code == ExitCode.UNREACHABLE
        assert "is not ready" in missing.stderr
        assert "data_dir: " in missing.stderr
        process.send_signal(signal.SIGSTOP)
        hanging = invoke_command("health", folder=tmp_path, **variables)
        process.send_signal(signal.SIGCONT)
    gone = invoke_command("health", folder=tmp_path, **variables)
    assert (hanging.exit_code, gone.exit_code) == (ExitCode.UNREACHABLE, ExitCode.UNREACHABLE)
    assert "4 s" in hanging.stderr
    assert f"127.0.0.1:{port}" in gone.stderr


def test_512_callers_at_once_are_let_in_by_the_unix_socket(tmp_path):
    path = tmp_path / "socket"
    with ExitStack() as stack, serve(tmp_path, WAVETRIM_UNIX_SOCKET=str(path)) as (_, process):
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


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"HOST": "0.0.0.0"}, "host is '0.0.0.0'; it must be a loopback address (127.0.0.1) until"),
        ({"HOST": "0.0.0.0", "UNIX_SOCKET": "socket"}, "host is '0.0.0.0'"),
        ({"DATA_DIR": "key.pem"}, "a folder that can be written to"),
        ({"TCP": "off"}, "tcp"),
        ({"TCP": "maybe"}, "WAVETRIM_TCP is 'maybe'"),
        ({"TLS_KEY": "key.pem"}, "tls_certificate"),
        ({"TLS_CERTIFICATE": "certificate.pem"}, "tls_key"),
        ({"TLS_CERTIFICATE": "none", "TLS_KEY": "key.pem"}, "tls_certificate"),
        (
            {"TLS_CERTIFICATE": "locked/certificate.pem", "TLS_KEY": "locked/key.pem"},
            "tls_certificate",
        ),
        ({"LOG_LEVEL": "loud"}, "WAVETRIM_LOG_LEVEL is 'loud'"),
        ({"MAX_CONNECTIONS": "9999999"}, "max_connections is 9999999; it must be at most"),
        ({"UNIX_SOCKET": "key.pem"}, "there is a file already"),
        ({"UNIX_SOCKET": "link"}, "there is a file already"),
        ({"UNIX_SOCKET": "foreign"}, "nobody else listens"),
        ({"UNIX_SOCKET": "x" * 120}, "at most 107 bytes"),
        ({"UNIX_SOCKET": "key.pem/socket"}, "a socket can be made"),
    ],
)
def test_settings_that_cannot_be_served_by_are_refused_by_name(tmp_path, variables, message):
    (tmp_path / "locked").mkdir()
    _, key = make_certificate(tmp_path)
    (tmp_path / "link").symlink_to(key)
    make_certificate(tmp_path / "locked", password=b"ab")
    settings = {f"WAVETRIM_{name}": value for name, value in variables.items()}
    with socket.socket(socket.AF_UNIX) as listener, chdir(tmp_path):
        listener.bind("foreign")
        listener.listen()
        refused = invoke_command("serve", folder=tmp_path, **{"WAVETRIM_PORT": "0", **settings})
    assert (refused.exit_code, refused.stdout) == (ExitCode.REFUSED, "")
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "wavetrim-data").exists()
    assert key.read_text().startswith("-----BEGIN")
    assert (tmp_path / "foreign").is_socket()
