"""Connections that say nothing, and a want of descriptors, do not keep other callers out."""

import contextlib
import itertools
import json
import resource
import socket
import ssl
import time
from http.client import HTTPResponse
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.certificates import make_tls_settings
from tests.faults.limits import FEW_DESCRIPTORS
from tests.limit import allow
from tests.server import RunningServer


@pytest.mark.slow
def test_silent_connections_do_not_lock_others_out_at_64_descriptors(tmp_path):
    settings = {"prefix": FEW_DESCRIPTORS, "unix_socket": tmp_path / "socket"}
    array = np.eye(300)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RunningServer(tmp_path / "data", **settings))
        for _ in range(2):
            silent = [
                stack.enter_context(server.connect(way))
                for way in ("tcp", "unix")
                for _ in range(40)
            ]
            # A caller that was connected before does not feel it; database and engine work.
            server.run_job(array, array)
            for way in ("tcp", "unix"):
                with server.connect(way) as connection, HTTPResponse(connection) as response:
                    response.begin()
                    assert (response.status, response.headers["Retry-After"]) == (503, "1")
                    problem = json.loads(response.read())
                assert problem["field"] == "connections"
                assert problem["value"] > 8
                assert problem["limit"] == "at most 8 (max_connections)"
            began = time.monotonic()
            while ask_health(server) != 200:
                time.sleep(0.1)
                assert time.monotonic() - began < allow(15)
            server.client.get("/healthz/live")
            del silent
    assert "Traceback" not in server.read_log()


@pytest.mark.slow
def test_connections_that_never_shake_hands_do_not_lock_others_out_either(tmp_path):
    settings = {"prefix": FEW_DESCRIPTORS, **make_tls_settings(tmp_path)}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RunningServer(tmp_path / "data", **settings))
        began = time.monotonic()
        address = ("127.0.0.1", server.port)
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(80)]
        # A caller that was connected before does not feel it.
        server.run_job(np.eye(300), np.eye(300))
        trusted = ssl.create_default_context(cafile=settings["tls_certificate"])
        while ask_health(server, trusted) != 200:
            server.client.get("/healthz/live")
            time.sleep(0.1)
            assert time.monotonic() - began < allow(30)
        for connection in silent:
            connection.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        assert time.monotonic() - began < allow(40)
        assert server.read_metric('wavetrim_wire_refusals_total{status="closed"}') >= 60
    log = server.read_log()
    assert "Traceback" not in log
    assert 1 <= log.count("refused before the application: closed, too many connections") < 5


def ask_health(server, trusted=False):
    """The status of /healthz/live for a new caller; 0 where there was no answer."""
    try:
        return httpx.get(f"{server.url}/healthz/live", verify=trusted).status_code
    except httpx.TransportError:
        return 0


def test_without_descriptors_a_caller_waits_and_the_service_and_the_log_go_on(
    start_server, tmp_path
):
    server = start_server(unix_socket=tmp_path / "socket")
    logged, pid = len(server.read_log()), server.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = {int(one.name) for one in Path(f"/proc/{pid}/fd").iterdir()}
    free = next(number for number in itertools.count() if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, hard))
    with server.connect("leases") as caller:
        began = time.monotonic()
        while time.monotonic() < began + 0.3:
            assert server.client.get("/healthz/live").status_code == 200
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        caller.send(b"no secret of a lease")
        assert b"one of a lease" in caller.recv(1000)
    told = [line for line in server.read_log()[logged:].splitlines() if "WARNING" in line]
    assert len(told) == 1, told
