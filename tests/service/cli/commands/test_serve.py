"""`wavetrim serve`: how it starts, drains and stops."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.command import (
    StartedCommand,
    invoke_command,
    make_environment,
    run_command,
    start_command,
)
from tests.limit import allow
from tests.matrices import make_matrix
from wavetrim.client import Client
from wavetrim.service.cli.exits import ExitCode


@contextmanager
def serve(folder: Path, *options: object, **variables: str) -> Iterator[tuple[str, StartedCommand]]:
    """A service started as a user does it; yields its address as it prints it."""
    arguments = ["serve", "--port", 0, "--data-dir", "data", *options]
    with start_command(*arguments, folder=folder, **variables) as process:
        try:
            line = process.stdout.readline()
            found = re.fullmatch(r"wavetrim is serving on (http://\S+)\n", line)
            assert found is not None, process.stderr.read()
            yield found[1], process
        finally:
            process.kill()


def stop(process: StartedCommand, number: int) -> tuple[str, str]:
    process.send_signal(number)
    return process.communicate(timeout=30)


def test_it_serves_a_folder_of_its_own_until_ctrl_c(tmp_path: Path) -> None:
    with serve(tmp_path) as (url, process):
        assert httpx.get(f"{url}/v1/jobs", verify=False).status_code == 200
        second = run_command("serve", "--port", 0, "--data-dir", "data", folder=tmp_path)
        output, log = stop(process, signal.SIGINT)
    assert process.returncode == 0
    assert output == "", "the address is all that standard output holds"
    assert "Traceback" not in log
    assert "/v1/jobs" not in log, "requests are logged only when asked for"
    assert second.returncode == ExitCode.REFUSED
    assert "a folder that no other running service uses" in second.stderr.splitlines()[-1]
    assert "Traceback" not in second.stderr
    assert second.stdout == ""


def test_its_first_line_is_the_address_of_its_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wavetrim", "serve", "--port", "0", "--data-dir", "data"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=make_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().removeprefix("wavetrim is serving on ").strip()
            assert "<title>" in httpx.get(url).text
        finally:
            process.terminate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_it_ends_with_its_terminal_as_by_other_signals(
    tmp_path: Path, number: signal.Signals
) -> None:
    with serve(tmp_path) as (_, process):
        output, log = stop(process, number)
    assert (process.returncode, output) == (0, "")
    assert "Traceback" not in log


def test_under_nohup_it_outlives_its_terminal(tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "wavetrim", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--data-dir", "data"],
        cwd=tmp_path,
        env=make_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert httpx.get(f"{url}/v1/jobs", verify=False).status_code == 200
        process.terminate()
    assert process.returncode == 0


def test_beyond_loopback_it_needs_a_key(tmp_path: Path) -> None:
    refused = invoke_command("serve", "--host", "0.0.0.0", "--port", 0, folder=tmp_path)
    assert refused.exit_code == ExitCode.REFUSED
    assert "host is '0.0.0.0'" in refused.stderr
    assert "WAVETRIM_API_KEY" in refused.stderr
    assert refused.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_options_go_before_the_environment(tmp_path: Path) -> None:
    refused = invoke_command(
        "serve", "--log-level", "loud", folder=tmp_path, WAVETRIM_LOG_LEVEL="info"
    )
    assert refused.exit_code == ExitCode.REFUSED
    assert "WAVETRIM_LOG_LEVEL is 'loud'" in refused.stderr


def test_a_second_signal_does_not_wait_for_the_job(tmp_path: Path) -> None:
    with serve(tmp_path) as (url, process), Client(url) as client:
        matrix = client.put(make_matrix(3300, 3300, "int64", 1))
        job = client.submit(matrix, matrix)
        while job.status().state == "queued":
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        client.close()
        begin = time.monotonic()
        stop(process, signal.SIGINT)
    assert process.returncode == 0
    assert time.monotonic() - begin < allow(10)
