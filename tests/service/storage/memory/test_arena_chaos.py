"""Callers who vanish or read slowly, by every transport, and killed engines: all answers are right.

Slabs are small, so the arena grows, evicts what is on disk, is full, and gives memory back all
the time. Freed memory is poisoned, so a read that comes too late shows as wrong bytes. What is sent
is drawn by the fuzzer of the sockets, from a seed: WAVETRIM_CHAOS_SEED repeats it, as far as
threads can be repeated. WAVETRIM_CHAOS_SECONDS makes a run longer.
"""

import asyncio
import os
import secrets
import signal
from functools import partial

import pytest

from tests.certificates import make_tls_settings
from tests.fuzz.watched import WatchedService
from tests.fuzz.wire import WireFuzzer
from tests.fuzz.wire_cases import draw_heavy_case
from tests.processes import wait_until

SECONDS = float(os.environ.get("WAVETRIM_CHAOS_SECONDS", "8"))
KILLS = 3
SLAB_BYTES = 2 * 2**20
"""The least; the largest matrices have slabs of their own."""

ARENA_BYTES = 12 * 2**20
"""Too little for sixteen callers with large matrices: some go through files."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tcp", "tls", "unix"])
def test_every_answer_is_right_whatever_others_do(tmp_path, way):
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
