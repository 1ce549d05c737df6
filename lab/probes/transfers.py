"""Copies over links by kind of memory and direction: host and GPU, and two GPUs."""

from collections.abc import Iterator, Sequence
from typing import Final

from wavetrim.kernels.errors import DeviceUnavailable
from wavetrim.kernels.timing.links import MEMORIES, LockReading, measure_locking, measure_transfers
from wavetrim.kernels.timing.readings import LinkReading
from wavetrim.lab.gpu.peers import can_access_peer, measure_peers
from wavetrim.lab.probes.links import (
    draw_links,
    format_size,
    make_rows,
    name_wrong_copies,
    tabulate_links,
)
from wavetrim.lab.probes.rates import name_wrong
from wavetrim.lab.reports.bench import Bench, Hardware
from wavetrim.lab.reports.plot import Plot
from wavetrim.lab.reports.report import Report
from wavetrim.lab.reports.table import Row, Table, format_milliseconds

TRANSFERS: Final = "transfers"
TRANSFERS_SHOW: Final = (
    "copies of pageable, registered and pinned memory: in, out, both; and locking it"
)
SIZES: Final = (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20)
LOCK_SIZES: Final = (1 << 20, 16 << 20, 256 << 20)
RUNS: Final = 9
LOCK_RUNS: Final = 3

PEERS: Final = "peers"
PEERS_SHOW: Final = "copies between two GPUs, directly and staged through the host"
PEER_SIZES: Final = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)

_LATENCY_SIZE: Final = 4 << 10
_LOCKING: Final = ("register", "unregister", "allocate")


def run_transfers(bench: Bench) -> Report:
    """Measure each size, kind of memory and direction, and the cost of page-locking."""
    bench.tell(0.0, "copies")
    readings = measure_transfers(bench.device.index, SIZES, RUNS)
    bench.tell(0.8, "locking memory")
    locks = measure_locking(bench.device.index, LOCK_SIZES, LOCK_RUNS)
    return report_transfers(readings, locks, bench.hardware)


def report_transfers(
    readings: Sequence[LinkReading], locks: Sequence[LockReading], hardware: Hardware
) -> Report:
    """The report: rates, latencies of small copies, and times of page-locking."""
    small = [one for one in readings if one.size_bytes <= _LATENCY_SIZE]
    large = [one for one in readings if one.size_bytes > _LATENCY_SIZE] or readings
    panels = tuple(
        draw_links(memory, [one for one in readings if one.way == memory]) for memory in MEMORIES
    )
    latencies = (tabulate_links("Latencies", "memory", small, latency=True),) if small else ()
    return Report(
        name=TRANSFERS,
        title="Copies between host memory and the GPU, from the call to the last byte; both: one "
        "each way at once, rates of both together.",
        hardware=hardware,
        findings=name_wrong(name_wrong_copies(readings)),
        tables=(
            tabulate_links("Rates", "memory", large, latency=False),
            *latencies,
            *((_tabulate_locks(locks),) if locks else ()),
        ),
        plots=(Plot("", f"{TRANSFERS}: pageable, registered and pinned", panels, same_y=True),),
        rows=(*make_rows(readings), *(row for one in locks for row in _make_lock_rows(one))),
        passed=all(one.right for one in readings),
    )


def run_peers(bench: Bench) -> Report:
    """Measure every size between the first two GPUs."""
    if not bench.others:
        raise DeviceUnavailable(f"the probe {PEERS} measures two GPUs, and there is one")
    first, second = bench.device.index, bench.others[0].index
    bench.tell(0.0, f"GPUs {first} and {second}")
    readings = measure_peers(first, second, bench.cache_dir, PEER_SIZES, RUNS)
    return report_peers(readings, bench.hardware, direct=can_access_peer(first, second))


def report_peers(readings: Sequence[LinkReading], hardware: Hardware, *, direct: bool) -> Report:
    """The report: rates and latencies of each way."""
    ways = dict.fromkeys(one.way for one in readings)
    panels = tuple(draw_links(way, [one for one in readings if one.way == way]) for way in ways)
    access = "can" if direct else "cannot"
    least = min(one.size_bytes for one in readings)
    small = [one for one in readings if one.size_bytes == least]
    large = [one for one in readings if one.size_bytes > least] or readings
    return Report(
        name=PEERS,
        title="Copies between two GPUs; both: one each way at once, rates of both together.",
        hardware=hardware,
        findings=(
            *name_wrong(name_wrong_copies(readings)),
            f"The GPUs {access} access each other's memory directly.",
        ),
        tables=(
            tabulate_links("Rates", "way", large, latency=False),
            tabulate_links("Latencies", "way", small, latency=True),
        ),
        plots=(Plot("", f"{PEERS}: ways from GPU to GPU", panels, same_y=True),),
        rows=make_rows(readings),
        passed=all(one.right for one in readings),
    )


def _tabulate_locks(locks: Sequence[LockReading]) -> Table:
    cells = tuple(
        (
            format_size(one.size_bytes),
            *(format_milliseconds(getattr(one, f"{what}_seconds")) for what in _LOCKING),
        )
        for one in locks
    )
    return Table("Page-locking, ms", ("size", *_LOCKING), cells)


def _make_lock_rows(one: LockReading) -> Iterator[Row]:
    for what in _LOCKING:
        seconds: float = getattr(one, f"{what}_seconds")
        yield {"way": what, "size_bytes": one.size_bytes, "median_seconds": seconds}
