"""A service keeps nothing of the products that it computes in one call."""

from dataclasses import replace

import pytest

from benchmarks.http.clients.service_calls import ServiceCalls
from benchmarks.http.endurance import OWN_BYTES, Holdings, compute_products
from tests.processes import wait_until
from tests.server import RunningServer


@pytest.mark.slow
def test_nothing_grows_over_2_000_products(server: RunningServer) -> None:
    address = ("127.0.0.1", server.port)
    with ServiceCalls(server.port) as calls:

        def look() -> Holdings:
            return Holdings.measure(server.process.pid, server.data_dir, calls)

        def compute(products: int) -> None:
            for _ in compute_products(address, products, clients=8, size=64):
                pass

        new = look()
        compute(200)
        wait_until(lambda: look().descriptors <= new.descriptors)  # connections are closed
        before = look()
        compute(2_000)
        wait_until(lambda: not look().find_growth(before))


def test_what_has_grown_is_named() -> None:
    before = Holdings(database_bytes=100, files=1, own_bytes=1000, descriptors=5, arena_bytes=0)
    settled = replace(before, own_bytes=1000 + OWN_BYTES)
    assert settled.find_growth(before) == []
    later = replace(settled, files=2, own_bytes=1001 + OWN_BYTES)
    assert later.find_growth(before) == [
        "files was 1 and is 2",
        f"own_bytes was 1000 and is {1001 + OWN_BYTES}",
    ]
