"""The arena's rules in a running service: each test tries to break one."""

import asyncio
import ctypes
import os
import secrets
import signal
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from http.client import HTTPResponse
from pathlib import Path

import numpy as np
import pytest

from tests.certificates import make_tls_settings
from tests.fuzz.watched import WatchedService
from tests.fuzz.wire import WireFuzzer
from tests.fuzz.wire_cases import draw_heavy_case
from tests.groups import memory_group
from tests.limit import allow
from tests.matrices import SLOW
from tests.own_memory import measure_own
from tests.processes import wait_until
from tests.server import encode_npy
from tests.service.api.wire.wire_server import exchange, make_head, read_answer

MIB = 2**20
RUNNING = 'wavetrim_products{state="running"}'


def make_request(rows, columns, factor, depth=2, dtype="float64"):
    """A request whose product is the same everywhere, and its .npy file."""
    a, b = np.full((rows, depth), factor, dtype), np.ones((depth, columns), dtype)
    body = encode_npy(a) + encode_npy(b)
    answer = encode_npy(np.full((rows, columns), factor * depth, dtype))
    return make_head("/v1/matmul", len(body)) + body, answer


def start_tls(start_server, folder, arena_bytes):
    """A service with TLS and small slabs, which gives memory back soon."""
    return start_server(
        **make_tls_settings(folder), arena_bytes=arena_bytes,
        arena_slab_bytes=2 * MIB, arena_idle_seconds=0.2, arena_poison=True,
    )  # fmt: skip


def check_service(server):
    """It computes, holds no memory, and has had no surprise."""
    request, answer = make_request(300, 300, 7.0, 300)
    assert exchange(server, request) == (200, answer)
    wait_until(lambda: server.read_arena("used_bytes") == 0)
    assert "Traceback" not in server.read_log()


def test_a_reader_who_stops_for_a_while_gets_no_other_bytes(start_server, tmp_path):
    server = start_tls(start_server, tmp_path, 96 * MIB)
    request, answer = make_request(2000, 2000, 3.0)  # 31 MiB, more than the sockets take
    slow = server.connect(receive_buffer=4096)
    slow.sendall(request)
    begun = HTTPResponse(slow)
    begun.begin()
    assert begun.status == 200
    for number in range(5):  # they use all of the memory that is not the slow one's
        other, wanted = make_request(1000, 1000, float(number))
        assert exchange(server, other) == (200, wanted)
    assert begun.read() == answer
    slow.close()
    wait_until(lambda: server.read_arena("used_bytes") == 0)


def test_memory_is_not_used_again_before_a_dead_engine_is_reaped(start_server):
    server = start_server(arena_poison=True)
    content = 2 * encode_npy(np.ones((2 * SLOW, 2 * SLOW), np.int64))
    engine = server.find_engine()
    with server.connect() as connection:
        connection.sendall(make_head("/v1/matmul", len(content)) + content)
        wait_until(lambda: server.read_metric(RUNNING) == 1)
        os.kill(engine, signal.SIGSTOP)
    for _ in range(20):  # the caller is gone, and the engine might go on at any moment
        assert server.read_arena("used_bytes") > 3 * (2 * SLOW) ** 2 * 8
        time.sleep(0.05)
    os.kill(engine, signal.SIGKILL)
    wait_until(lambda: server.read_arena("used_bytes") == 0)
    assert not Path(f"/proc/{engine}").exists(), "its memory was free before it was reaped"
    server.wait_ready()
    check_service(server)


def test_an_engine_that_is_killed_in_mid_product_changes_no_answer(start_server):
    server = start_server(arena_bytes=128 * MIB, arena_poison=True)
    request, answer = make_request(SLOW, SLOW, 3.0, SLOW, "int64")
    with ThreadPoolExecutor(1) as caller:
        found = caller.submit(exchange, server, request)
        wait_until(lambda: server.read_metric(RUNNING) == 1)
        os.kill(server.find_engine(), signal.SIGKILL)
        assert found.result(60) == (200, answer)
    check_service(server)


def test_a_hole_punched_into_the_arena_does_not_end_the_service(start_server):
    server = start_server()
    check_service(server)
    engine = server.find_engine()
    for path in Path(f"/proc/{server.process.pid}/fd").iterdir():
        if "memfd:wavetrim-arena" in str(path.readlink()):
            punch(path)
    for _ in range(3):
        check_service(server)
    assert server.find_engine() == engine
    assert server.process.poll() is None


def punch(path):
    """Take all pages out of a memfd that somebody has open."""
    file = os.open(path, os.O_RDWR)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        size = ctypes.c_long(os.fstat(file).st_size)
        assert libc.fallocate(file, 3, ctypes.c_long(0), size) == 0, ctypes.get_errno()
    finally:
        os.close(file)


def test_a_refused_client_that_sends_on_slowly_sees_the_refusal_and_is_let_go(start_server):
    server = start_server(linger_seconds=1)
    a, b = encode_npy(np.ones((9, 2500))), encode_npy(np.ones((2501, 2500)))
    with server.connect() as connection:
        connection.sendall(make_head("/v1/matmul", len(a) + len(b)) + a + b[:4096])
        began, read = time.monotonic(), b""
        connection.settimeout(0.1)
        with suppress(ConnectionError):
            while time.monotonic() - began < allow(20):
                connection.sendall(bytes(1024))
                with suppress(TimeoutError):
                    read += connection.recv(2**16)
            pytest.fail("the connection is still open")
    assert b" 422 " in read
    assert b"shape of b" in read
    check_service(server)


@pytest.mark.slow
@pytest.mark.serial  # a body that gets no place within 10 s is refused
def test_hundreds_of_callers_each_with_one_matrix_sent_all_get_their_product(start_server):
    server = start_server(arena_bytes=32 * MIB, arena_poison=True)
    request, answer = make_request(350, 350, 2.0, 350)  # 1 MiB a matrix
    half = len(request) // 2 + 1000
    with ExitStack() as stack:
        callers = []
        for _ in range(300):
            callers.append(stack.enter_context(server.connect()))
            callers[-1].sendall(request[:half])
        for caller in callers:
            caller.sendall(request[half:])
        for caller in callers:
            assert read_answer(caller) == (200, answer)
    assert server.read_arena("refusals") > 0
    assert server.list_matrix_files() == set()
    check_service(server)


@pytest.mark.slow
def test_lost_tls_connections_keep_no_buffers(start_server, tmp_path):
    server = start_tls(start_server, tmp_path, 12 * MIB)
    request, _ = make_request(200, 200, 2.0, 100)
    before_bytes = 0
    for number in range(360):
        connection = server.connect()
        connection.sendall(request if number % 2 else request[:-1000])
        if number % 2:
            assert read_answer(connection)[0] == 200
        if number % 3 == 0:  # it is reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        before_bytes = before_bytes or (number > 60 and measure_own(server.process.pid)) or 0
    assert measure_own(server.process.pid) - before_bytes < 30 * MIB


@pytest.mark.needs("memory-group")
def test_a_service_in_a_full_control_group_uses_files_and_is_not_killed(start_server):
    with (
        memory_group(640 * MIB) as group,
        start_server(prefix=group.prefix, arena_bytes=4096 * MIB, max_bodies=64) as server,
    ):
        expect_files_are_used(server)
        assert group.count_kills() == 0
        check_service(server)


def expect_files_are_used(server):
    """More operands at once than fit into the group."""
    engine = server.find_engine()
    request, answer = make_request(100, 100, 5.0, 22_500)  # 17 MiB a matrix
    with ExitStack() as stack:
        callers = []
        for _ in range(28):  # 960 MiB of operands at once
            callers.append(stack.enter_context(server.connect()))
            callers[-1].sendall(request[:-1000])
        arena = server.client.get("/v1/devices").json()["arena"]
        assert 0 < arena["made_bytes"] < 640 * MIB
        assert arena["refusals"] > 0
        for caller in callers:
            caller.sendall(request[-1000:])
            status, body = read_answer(caller)
            assert status in (200, 507), body
            assert status == 507 or body == answer
    assert server.find_engine() == engine


SECONDS = float(os.environ.get("WAVETRIM_CHAOS_SECONDS", "8"))
KILLS = 3
SLAB_BYTES = 2 * MIB
"""The least; the largest matrices have slabs of their own."""

ARENA_BYTES = 12 * MIB
"""Too little for sixteen callers with large matrices: some go through files."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tcp", "tls", "unix"])
def test_every_answer_is_right_whatever_others_do(tmp_path, way):
    """Callers vanish or read slowly, and engines are killed.

    Slabs are small, so the arena grows, evicts what is on disk, is full, and gives memory back all
    the time. Freed memory is poisoned, so a read that comes too late shows as wrong bytes. What is
    sent is drawn by the fuzzer of the sockets, from a seed: WAVETRIM_CHAOS_SEED repeats it, as far
    as threads can be repeated. WAVETRIM_CHAOS_SECONDS makes a run longer.
    """
    settings = {
        "arena_bytes": ARENA_BYTES,
        "arena_slab_bytes": SLAB_BYTES,
        "arena_idle_seconds": 0.2,  # memory is given back soon, and grown again
    }
    if way == "tls":
        settings |= make_tls_settings(tmp_path)
    seed = int(os.environ.get("WAVETRIM_CHAOS_SEED", secrets.randbelow(2**32)))
    print(f"WAVETRIM_CHAOS_SEED={seed}")
    with WatchedService(side=500, is_killed=True, **settings) as service:
        server = service.server
        fuzzer = WireFuzzer(service, seed, partial(draw_heavy_case, way=way))

        async def run():
            await asyncio.gather(fuzzer.run(SECONDS), kill_engines(server))

        asyncio.run(run())
        assert server.read_metric("wavetrim_engine_restarts_total") == KILLS
        assert server.read_arena("evictions") > 0, "no matrix on disk left its place"
        assert server.read_arena("refusals") > 0, "no file was needed"
        service.forget_matrices()
        for matrix in service.matrices:
            assert server.client.delete(f"/v1/matrices/{matrix.id}").status_code == 204
        # What nobody uses is given back, but for one slab. asyncio waits 30 s for the farewell of
        # a TLS connection whose client has left.
        wait_until(lambda: server.read_arena("extents") == 0, seconds=60)
        wait_until(lambda: server.read_arena("made_bytes") == SLAB_BYTES)
        wait_until(lambda: server.list_matrix_files() == set())


async def kill_engines(server):
    for _ in range(KILLS):
        await asyncio.sleep(SECONDS / (KILLS + 1))
        os.kill(await asyncio.to_thread(server.find_engine), signal.SIGKILL)
