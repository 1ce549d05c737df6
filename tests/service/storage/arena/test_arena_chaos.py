"""Hundreds of requests of clients who behave badly, by every transport, and killed engines.

Slabs are small, so the arena grows, evicts what is on disk, is full, and gives memory back all
the time. Freed memory is poisoned, so a read that comes too late shows as wrong bytes. The seed
of a run is in its failures; WAVETRIM_CHAOS_SEED repeats it, as far as threads can be repeated.
WAVETRIM_CHAOS_DECKS makes a run longer.
"""

import os
import secrets
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.certificates import make_certificate
from tests.processes import wait_until
from tests.server import NPY, RunningServer, Start, decode_npy, encode_npy
from tests.service.storage.arena.chaos_client import DECK, Address, ChaosClient

DECKS: Final = int(os.environ.get("WAVETRIM_CHAOS_DECKS", "1"))
"""How often each half of a run holds every way of sending a request, and often those that are
usual. With 5 a run finds what happens seldom."""

REQUESTS: Final = 2 * DECKS * len(DECK)

CLIENTS: Final = 12
KILLS: Final = 4
SLAB_BYTES: Final = 2 * 2**20
"""The least; the largest matrices have slabs of their own."""

ARENA_BYTES: Final = 12 * 2**20
"""Too little for twelve clients with large matrices: some go through files."""

IDLE_SECONDS: Final = 0.2
"""Memory is given back soon, and grown again."""

MOST_GROWTH_BYTES: Final = 48 * 2**20
"""More than the second half of the requests may add to the service's own memory: its allocator
keeps buffers of a few large bodies."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tcp", "tls", "unix"])
def test_every_answer_is_right_whatever_others_do(
    start_server: Start, tmp_path: Path, way: str
) -> None:
    server, address = start(start_server, tmp_path, way)
    seed = int(os.environ.get("WAVETRIM_CHAOS_SEED", secrets.randbelow(2**32)))
    try:
        run(server, address, seed, range(REQUESTS // 2))
        check_shrunk(server)
        before_bytes = read_own_bytes(server)
        ways = run(server, address, seed, range(REQUESTS // 2, REQUESTS))
        assert read_own_bytes(server) < before_bytes + MOST_GROWTH_BYTES
        assert set(ways) == set(DECK)
        check_shrunk(server)
        check_nothing_left(server)
    except BaseException as error:
        error.add_note(f"WAVETRIM_CHAOS_SEED={seed}; the log:\n{server.read_log()[-4000:]}")
        raise


def start(
    start_server: Start, folder: Path, way: str, arena_bytes: int = ARENA_BYTES
) -> tuple[RunningServer, Address]:
    """A service with little memory, which listens in one way."""
    settings: dict[str, object] = {
        "arena_bytes": arena_bytes,
        "arena_slab_bytes": SLAB_BYTES,
        "arena_idle_seconds": IDLE_SECONDS,
        "arena_poison": True,
    }
    path = folder / "socket"
    if way == "tls":
        certificate, key = make_certificate(folder)
        settings |= {"tls_certificate": certificate, "tls_key": key}
    elif way == "unix":
        settings["unix_socket"] = path
    server = start_server(**settings)
    server.wait_ready()
    return server, Address(path if way == "unix" else server.port, tls=way == "tls")


def run(server: RunningServer, address: Address, seed: int, numbers: range) -> Counter[str]:
    """Send requests from several clients, and kill the engine now and then.

    When all were answered, the arena has grown; then nothing is kept any more.
    """
    killing = len(numbers) // (KILLS // 2)
    take = iter(numbers)
    lock = threading.Lock()
    failed = threading.Event()
    answered = threading.Barrier(CLIENTS, lambda: check_grown(server), timeout=200)

    def work() -> Counter[str]:
        ways: Counter[str] = Counter()
        client = ChaosClient(address, seed)
        try:
            while not failed.is_set():
                with lock:
                    number = next(take, None)
                if number is None:
                    break
                if number % killing == killing // 2:
                    os.kill(server.find_engine(), signal.SIGKILL)
                ways[client.run(number)] += 1
            client.keep_some()
            client.close()  # the service closes connections that are idle for long
            answered.wait()
            client.keep_nothing()
        except BaseException:
            failed.set()
            answered.abort()
            raise
        finally:
            client.close()
        return ways

    with ThreadPoolExecutor(CLIENTS) as pool:
        calls = [pool.submit(work) for _ in range(CLIENTS)]
    errors = [error for call in calls if (error := call.exception())]
    if errors:  # a barrier breaks because another client has failed
        raise min(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError))
    return sum((call.result() for call in calls), Counter[str]())


def check_grown(server: RunningServer) -> None:
    """What is kept fills many slabs; a matrix that finds no place goes through a file."""
    assert read_arena(server, "made_bytes") > ARENA_BYTES // 2
    long = np.ones((1, ARENA_BYTES // 8))
    content = encode_npy(long) + encode_npy(long.T)
    answer = server.client.post("/v1/matmul", content=content, headers=NPY)
    assert decode_npy(answer.content) == long.size


def check_shrunk(server: RunningServer) -> None:
    """What nobody uses is given back, but for one slab."""
    try:
        # asyncio waits 30 s for the farewell of a TLS connection whose client has left.
        wait_until(lambda: read_arena(server, "made_bytes") == SLAB_BYTES, seconds=60)
    except AssertionError as error:
        held = server.client.get("/v1/devices").json()["arena"]
        kept = server.client.get("/v1/matrices").json()["matrices"]
        error.add_note(f"the arena: {held}; matrices: {kept}")
        raise
    assert read_arena(server, "used_bytes") == 0


def check_nothing_left(server: RunningServer) -> None:
    """No memory, product or file is left, and nobody was surprised."""
    assert read_arena(server, "extents") == 0
    assert server.read_metric('wavetrim_products{state="waiting"}') == 0
    assert server.read_metric('wavetrim_products{state="running"}') == 0
    assert server.read_metric("wavetrim_engine_restarts_total") == KILLS
    assert read_arena(server, "evictions") > 0, "no matrix on disk left its place"
    assert read_arena(server, "refusals") > 0, "no file was needed"
    assert server.list_matrix_files() == set()
    log = server.read_log()
    assert "incident" not in log
    assert "Traceback" not in log


def read_arena(server: RunningServer, what: str) -> float:
    return server.read_metric(f'wavetrim_arena{{what="{what}"}}')


def read_own_bytes(server: RunningServer) -> int:
    """The service's anonymous memory: not the arena's, nor that of files."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024
