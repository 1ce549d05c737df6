"""No caller takes all of what is shared: descriptors, connections, streams, bodies, memory."""

import contextlib
import os
import select
import socket
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.leases import fetch_descriptor
from tests.processes import wait_until
from tests.server import NPY, RunningServer, decode_npy, encode_npy, make_server_fixture, open_http
from tests.service.api.wire.wire_server import make_head
from tests.service.tenants.tenants import (
    OWN_KEY,
    make_caller_fixture,
    manage_keys,
    open_caller,
    post_job,
    upload,
)
from wavetrim.service.api.wire.exchange import CONTINUE

FEW = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
"""What runs a command that may open 256 descriptors."""

MIB = 2**20
MATRIX = np.random.default_rng(0).random((300, 300))


def lease_all(server, stack):
    client = stack.enter_context(open_http(Path(server.settings["unix_socket"])))
    while True:
        answer = client.post("/v1/leases", json={"bytes": MIB})
        if answer.status_code != 201:
            assert (answer.status_code, answer.json()["field"]) == (503, "leases")
            return
        grant = answer.json()
        connection, _, file = fetch_descriptor(grant["socket"], grant["token"])
        assert file is not None
        stack.enter_context(connection)
        stack.callback(os.close, file)


def be_silent_at_the_lease_socket(server, stack):
    for _ in range(300):
        stack.enter_context(server.connect("leases"))


def stall(server, stack, request):
    for _ in range(150):
        connection = stack.enter_context(server.connect(receive_buffer=4096))
        with contextlib.suppress(OSError):
            connection.sendall(request)


def stall_uploads(server, stack):
    content = encode_npy(np.ones((60, 60)))
    stall(server, stack, make_head("/v1/matrices", len(content)) + content[:9000])


def stall_downloads(server, stack):
    matrix = server.upload(np.ones((1500, 1500)))
    stall(server, stack, make_head(f"/v1/matrices/{matrix}/data", None, method="GET"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("take_all", "arena_bytes"),
    [
        (lease_all, 2**29),
        (be_silent_at_the_lease_socket, 2**26),
        (stall_uploads, 2**26),
        (stall_downloads, 0),
    ],
    ids=["leases", "the lease socket", "uploads", "downloads"],
)
def test_whoever_takes_all_descriptors_that_there_are_leaves_enough_for_the_service(
    tmp_path, take_all, arena_bytes
):
    settings = {"unix_socket": tmp_path / "socket", "arena_bytes": arena_bytes, "prefix": FEW}
    with RunningServer(tmp_path / "data", **settings, upload_idle_seconds=8) as server:
        with contextlib.ExitStack() as stack:
            take_all(server, stack)
            time.sleep(1)
            # A caller that was connected before computes and stores; the engine and database work.
            product = server.multiply(MATRIX, MATRIX)
            np.testing.assert_allclose(decode_npy(product.content), MATRIX @ MATRIX)
            assert server.client.get("/v1/jobs").status_code == 200
        server.run_job(MATRIX, MATRIX)
        lines = server.read_log().splitlines()
        assert not [line for line in lines if "Too many open files" in line or "Traceback" in line]


server = make_server_fixture(
    api_key=OWN_KEY,
    max_connections=40,
    max_bodies=4,
    arena_bytes=256 * MIB,
    upload_idle_seconds=2,
    max_queued_jobs=5,
)

mallory = make_caller_fixture("mallory", "--max-stored-bytes", "64MiB")
alice = make_caller_fixture("alice")


def ask(server, client, path, *lines, method, count=None):
    """A connection on which a caller has asked."""
    connection = server.connect(receive_buffer=4096)
    key = f"Authorization: {client.headers['Authorization']}"
    connection.sendall(make_head(path, count, key, *lines, method=method))
    return connection


def find_refused(connections):
    """The answers that have come so far, but for those that go on."""
    answers = []
    time.sleep(1)
    for connection in connections:
        connection.settimeout(0.02)
        with contextlib.suppress(TimeoutError):
            answers.append(connection.recv(4096))
    return [answer for answer in answers if not answer.startswith(b"HTTP/1.1 200")]


@pytest.mark.parametrize("path", ["/v1/jobs/events", "/v1/jobs/JOB?wait_seconds=20"])
def test_streams_and_waiting_calls_are_shared_among_callers(server, mallory, alice, path):
    waits = "JOB" in path
    share, field = (5, "calls that wait for jobs") if waits else (2, "streams of events")
    with contextlib.ExitStack() as stack:
        paths = [path, path]
        if waits:
            paths = [path.replace("JOB", _post_waiting(one)) for one in (mallory, alice)]
        many = [
            stack.enter_context(ask(server, mallory, paths[0], method="GET"))
            for _ in range(share + 3)
        ]
        refused = find_refused(many)
        assert len(refused) == 3
        assert all(answer.startswith(b"HTTP/1.1 429") for answer in refused)
        assert f"{field} of the key".encode() in refused[0]
        hers = stack.enter_context(ask(server, alice, paths[1], method="GET"))
        assert find_refused([hers]) == []


def _post_waiting(client):
    """A job that does not end soon: products of int64 are slow."""
    matrix = upload(client, np.ones((1500, 1500), "int64"))
    return post_job(client, matrix, matrix).json()["id"]


@pytest.mark.slow
def test_connections_are_shared_among_callers(tmp_path):
    content = encode_npy(np.ones((60, 60)))
    with (
        RunningServer(tmp_path / "data", api_key=OWN_KEY, prefix=FEW, arena_bytes=2**26) as server,
        contextlib.ExitStack() as stack,
    ):
        mallory, alice = (
            stack.enter_context(closing(open_caller(server, manage_keys(server, "add", name))))
            for name in ("mallory", "alice")
        )
        many = []
        for _ in range(100):
            many.append(ask(server, mallory, "/v1/matmul", method="POST", count=len(content)))
            stack.enter_context(many[-1]).sendall(content[:1000])
        refused = find_refused(many)
        assert 2 <= len(refused) < 20
        assert all(answer.startswith(b"HTTP/1.1 429") for answer in refused)
        assert b"requests, files and leases of the key" in refused[0]
        with open_http(server.url, headers=alice.headers) as fresh:
            assert fresh.post("/v1/matmul", content=2 * content, headers=NPY).status_code == 200


def test_bodies_are_shared_among_callers(server, mallory, alice):
    """Who comes last is asked for its body before others of the one who came first."""
    with contextlib.ExitStack() as stack:
        taken, *waiting = (
            stack.enter_context(ask_to_send(server, mallory, "/v1/matrices")) for _ in range(4)
        )
        assert taken.recv(25) == CONTINUE
        hers = stack.enter_context(ask_to_send(server, alice, "/v1/matrices"))
        while not (asked := select.select([hers, *waiting], [], [], 0.1)[0]):
            taken.sendall(bytes(1024))  # it is slow, but not silent
        assert asked == [hers]
        assert hers.recv(25) == CONTINUE


def ask_to_send(server, client, path):
    """A connection on which a caller waits for its body to be wanted."""
    return ask(server, client, path, "Expect: 100-continue", method="POST", count=2**20)


def count_stored(client):
    return client.get("/v1/me").json()["stored_bytes"]["used"]


def test_a_deleted_matrix_counts_in_its_owners_quota_until_nobody_downloads_it(server, mallory):
    content = encode_npy(np.ones((1024, 1024)))
    for storage in ("memory", "disk"):
        before = count_stored(mallory)
        path = f"/v1/matrices?storage={storage}"
        stored = mallory.post(path, content=content, headers=NPY).json()["id"]
        with ask(server, mallory, f"/v1/matrices/{stored}/data", method="GET") as download:
            assert download.recv(4) == b"HTTP"
            assert mallory.delete(f"/v1/matrices/{stored}").status_code == 204
            assert count_stored(mallory) >= before + 8 * MIB
        wait_until(lambda before=before: count_stored(mallory) == before)


def test_a_reader_slower_than_64_kib_a_second_is_cut(server, mallory):
    before = count_stored(mallory)
    for count, is_cut in ((2000, True), (200_000, False)):  # 20 kB and 1 MB a second
        content = encode_npy(np.ones((1024, 2048)))
        stored = mallory.post("/v1/matrices", content=content, headers=NPY).json()["id"]
        with ask(server, mallory, f"/v1/matrices/{stored}/data", method="GET") as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * count)
            assert reader.recv(4) == b"HTTP"
            mallory.delete(f"/v1/matrices/{stored}")
            began = time.monotonic()
            used = before + 1
            while used > before and time.monotonic() < began + (12 if is_cut else 6):
                for _ in range(10):
                    assert reader.recv(count)
                    time.sleep(0.1)
                used = count_stored(mallory)
        assert (used == before) is is_cut
        wait_until(lambda: count_stored(mallory) == before)
