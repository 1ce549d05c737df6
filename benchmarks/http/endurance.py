"""Whether a service keeps anything of the products that it computes: 100,000 of them, in one call.

Run `python -m benchmarks.http.endurance [--products 100000] [--clients 8] [--size 64]`. It shows
what the service holds before, in between and after. The first products do not count: they make what
later ones use again. It exits with 1 if the database, the files, the descriptors or the arena have
grown, or the own memory by more than OWN_BYTES.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.http.baselines.baseline import Setup
from benchmarks.http.baselines.lineup import ask_service
from benchmarks.http.baselines.service import Service
from benchmarks.http.baselines.wire import make_call
from benchmarks.http.clients.connection import Address
from benchmarks.http.clients.load import apply_load
from benchmarks.http.clients.product import Product
from benchmarks.http.clients.service_calls import ServiceCalls
from benchmarks.http.own_memory import list_family, measure_own

PRODUCTS: Final = 100_000
OWN_BYTES: Final = 16 * 2**20
"""Allowed growth of the own memory: under 200 bytes for each of 100,000 products; chosen."""

_DATABASE: Final = "wavetrim.db*"
_SETTLE_SECONDS: Final = 2.0
_BATCH_SECONDS: Final = 5.0
_HEADER: Final = ("products", "per s", "database", "files", "own MiB", "descriptors", "arena used")


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a service holds at one moment.

    Attributes:
        database_bytes: Bytes of the database and its log.
        files: Files in the data folder, without those of the database.
        own_bytes: Anonymous memory of the service and its engine.
        descriptors: Descriptors of both.
        arena_bytes: Bytes of extents in the arena.
    """

    database_bytes: int
    files: int
    own_bytes: int
    descriptors: int
    arena_bytes: int

    @classmethod
    def measure(cls, pid: int, data: Path, calls: ServiceCalls) -> "Holdings":
        """Look at an idle service."""
        # First, so that this connection is among the descriptors each time.
        arena = calls.call("GET", "/v1/devices")["arena"]
        database = set(data.glob(_DATABASE))
        family = list_family(pid)
        return cls(
            database_bytes=sum(path.stat().st_size for path in database),
            files=sum(path.is_file() and path not in database for path in data.rglob("*")),
            own_bytes=measure_own(pid),
            descriptors=sum(len(list(Path(f"/proc/{one}/fd").iterdir())) for one in family),
            arena_bytes=arena["used_bytes"],
        )

    def find_growth(self, before: "Holdings") -> list[str]:
        """In words what has grown; the own memory only beyond OWN_BYTES."""
        allowed = {"own_bytes": OWN_BYTES}
        return [
            f"{name} was {getattr(before, name)} and is {getattr(self, name)}"
            for name in self.__slots__
            if getattr(self, name) > getattr(before, name) + allowed.get(name, 0)
        ]


def compute_products(
    address: Address, products: int, *, clients: int, size: int
) -> Iterator[tuple[int, float]]:
    """Have products computed and checked; yields their number so far, and the rate a second."""
    drawn = [Product.draw(size, "float32", seed) for seed in range(4)]
    calls = [make_call(product, ask_service(product)) for product in drawn]
    done, rate = 0, 0.0
    while done < products:
        seconds = min(_BATCH_SECONDS, (products - done) / rate if rate else 1.0)
        load = apply_load(address, calls, clients, seconds)
        done += len(load.seconds)
        rate = len(load.seconds) / load.elapsed_seconds
        yield done, rate


def watch_products(
    address: Address, look: Callable[[], Holdings], *, products: int, clients: int, size: int
) -> list[str]:
    """Have products computed, after a twentieth more, and show what the service holds.

    Returns:
        What has grown, in words.
    """

    def show(done: object, rate: float) -> Holdings:
        held = look()
        database, files, own, *others = astuple(held)
        figures = (done, f"{rate:.0f}", database, files, f"{own / 2**20:.1f}", *others)
        print(" ".join(f"{figure:>12}" for figure in figures), flush=True)
        return held

    print(" ".join(f"{name:>12}" for name in _HEADER), flush=True)
    for _ in compute_products(address, products // 20, clients=clients, size=size):
        pass
    time.sleep(_SETTLE_SECONDS)
    before = show(0, 0.0)
    for done, rate in compute_products(address, products, clients=clients, size=size):
        show(done, rate)
    time.sleep(_SETTLE_SECONDS)
    return show("settled", 0.0).find_growth(before)


def main() -> int:
    """Compute, and show what was held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=PRODUCTS)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="wavetrim-") as name:
        folder = Path(name)
        service = Service(Setup(folder))
        address, stop = service.start()
        try:
            with ServiceCalls(service.port) as calls:
                grown = watch_products(
                    address,
                    lambda: Holdings.measure(service.pid, folder / "data", calls),
                    products=arguments.products,
                    clients=arguments.clients,
                    size=arguments.size,
                )
        finally:
            stop()
    for line in grown:
        print(f"grown: {line}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
