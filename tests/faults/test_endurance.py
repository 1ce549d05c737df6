"""A service keeps nothing of the products that it computes in one call."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pytest

from tests.own_memory import list_family, measure_own
from tests.processes import wait_until
from tests.server import NPY, RunningServer, decode_npy, encode_npy, open_http

CLIENTS = 8
OWN_BYTES = 16 * 2**20
"""Allowed growth of the own memory."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a service holds at one moment."""

    database_bytes: int
    files: int
    own_bytes: int
    descriptors: int
    arena_bytes: int

    @classmethod
    def measure(cls, server: RunningServer) -> Self:
        """Look at an idle service."""
        # First, so that this connection is among the descriptors each time.
        arena = server.client.get("/v1/devices").json()["arena"]
        database = set(server.data_dir.glob("wavetrim.db*"))
        others = (path for path in server.data_dir.rglob("*") if path not in database)
        family = list_family(server.process.pid)
        return cls(
            database_bytes=sum(path.stat().st_size for path in database),
            files=sum(path.is_file() for path in others),
            own_bytes=measure_own(server.process.pid),
            descriptors=sum(len(list(Path(f"/proc/{one}/fd").iterdir())) for one in family),
            arena_bytes=arena["used_bytes"],
        )

    def find_growth(self, before: Self) -> list[str]:
        """In words what has grown; the own memory only beyond OWN_BYTES."""
        allowed = {"own_bytes": OWN_BYTES}
        return [
            f"{name} was {getattr(before, name)} and is {getattr(self, name)}"
            for name in self.__slots__
            if getattr(self, name) > getattr(before, name) + allowed.get(name, 0)
        ]


def compute(server: RunningServer, products: int) -> None:
    """Have products computed by several callers at once, and check them."""
    a, b = np.random.default_rng(1).random((2, 64, 64), np.float32)
    body = encode_npy(a) + encode_npy(b)

    def call(count: int) -> None:
        with open_http(server.url) as client:
            for _ in range(count):
                answer = client.post("/v1/matmul", content=body, headers=NPY)
                assert np.allclose(decode_npy(answer.content), a @ b)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(call, [products // CLIENTS] * CLIENTS))


@pytest.mark.slow
def test_nothing_grows_over_2_000_products(server: RunningServer) -> None:
    def look() -> Holdings:
        return Holdings.measure(server)

    new = look()
    compute(server, 200)
    wait_until(lambda: look().descriptors <= new.descriptors)  # connections are closed
    before = look()
    compute(server, 2_000)
    wait_until(lambda: not look().find_growth(before))
