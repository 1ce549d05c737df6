"""The socket of leases while the process has no descriptor left."""

import itertools
import resource
import time
from pathlib import Path

SECONDS = 0.3


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
        while time.monotonic() < began + SECONDS:
            assert server.client.get("/healthz/live").status_code == 200
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        caller.send(b"no secret of a lease")
        assert b"one of a lease" in caller.recv(1000)
    told = [line for line in server.read_log()[logged:].splitlines() if "WARNING" in line]
    assert len(told) == 1, told
