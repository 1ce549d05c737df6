"""`wavetrim health`: what the health check of the container image asks, and what it answers."""

import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.certificates import make_certificate
from tests.command import StartedCommand, invoke_command, start_command
from tests.processes import wait_until
from tests.server import find_free_port
from wavetrim.service.cli.exits import ExitCode


@contextmanager
def serve(folder: Path, **variables: str) -> Iterator[StartedCommand]:
    """A service as a user starts it."""
    with start_command("serve", "--data-dir", "data", folder=folder, **variables) as process:
        try:
            assert process.stdout.readline(), process.stderr.read()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("way", ["tcp", "every address", "unix", "tls"])
def test_a_service_is_ready_wherever_it_listens(way: str, tmp_path: Path) -> None:
    variables = {"WAVETRIM_PORT": str(find_free_port()), "HTTP_PROXY": "http://127.0.0.1:1"}
    if way == "every address":
        variables |= {"WAVETRIM_HOST": "0.0.0.0", "WAVETRIM_API_KEY": "k" * 32}
    elif way == "unix":
        variables |= {"WAVETRIM_TCP": "off", "WAVETRIM_UNIX_SOCKET": str(tmp_path / "socket")}
    elif way == "tls":
        certificate, key = make_certificate(tmp_path)
        variables |= {"WAVETRIM_TLS_CERTIFICATE": str(certificate), "WAVETRIM_TLS_KEY": str(key)}
    with serve(tmp_path, **variables):
        wait_until(lambda: invoke_command("health", folder=tmp_path, **variables).exit_code == 0)
        told = invoke_command("health", folder=tmp_path, **variables)
    assert re.fullmatch(r"the service at \S+ is ready\n", told.stdout)
    gone = invoke_command("health", folder=tmp_path, **variables)
    assert gone.exit_code == ExitCode.UNREACHABLE
    assert (
        "/socket" if way == "unix" else f"127.0.0.1:{variables['WAVETRIM_PORT']}"
    ) in gone.stderr


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    variables = {"WAVETRIM_PORT": str(find_free_port())}
    with serve(tmp_path, **variables) as process:
        shutil.rmtree(tmp_path / "data" / "matrices")
        missing = invoke_command("health", folder=tmp_path, **variables)
        assert missing.exit_code == ExitCode.UNREACHABLE
        assert "is not ready" in missing.stderr
        assert "data_dir: " in missing.stderr
        process.send_signal(signal.SIGSTOP)
        hanging = invoke_command("health", folder=tmp_path, **variables)
        process.send_signal(signal.SIGCONT)
    assert hanging.exit_code == ExitCode.UNREACHABLE
    assert "4 s" in hanging.stderr


def test_a_setting_out_of_its_limits_is_named(tmp_path: Path) -> None:
    refused = invoke_command("health", folder=tmp_path, WAVETRIM_PORT="100000")
    assert refused.exit_code == ExitCode.REFUSED
    assert "WAVETRIM_PORT is '100000'" in refused.stderr
