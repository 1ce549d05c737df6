"""The link between host and GPU: rates and latencies by kind of memory and direction."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.link_probes import MEMORIES, LockReading, measure_locking, measure_transfers
from wavetrim.kernels.readings import LinkReading
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.experiments.table import Row, Table, format_milliseconds
from wavetrim.scheduler.probes.links import (
    draw_links,
    format_size,
    make_rows,
    name_wrong_copies,
    tabulate_links,
)
from wavetrim.scheduler.probes.rates import name_wrong

NAME: Final = "transfers"
SHOWS: Final = "copies of pageable, registered and pinned memory: in, out, both; and locking it"
SIZES: Final = (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20)
LOCK_SIZES: Final = (1 << 20, 16 << 20, 256 << 20)
RUNS: Final = 9
LOCK_RUNS: Final = 3

_LATENCY_SIZE: Final = 4 << 10


def run_probe(
    bench: Bench, sizes: Sequence[int] = SIZES, lock_sizes: Sequence[int] = LOCK_SIZES
) -> Report:
    """Measure every size, kind of memory and direction, and what locking costs.

    Raises:
        KernelsError: There is not enough memory, or a copy fails.
    """
    bench.tell(0.0, "copies")
    readings = measure_transfers(bench.device.index, sizes, RUNS)
    bench.tell(0.8, "locking memory")
    locks = measure_locking(bench.device.index, lock_sizes, LOCK_RUNS)
    return make_report(readings, locks, bench.hardware)


def make_report(
    readings: Sequence[LinkReading], locks: Sequence[LockReading], hardware: Hardware
) -> Report:
    """Rates of the sizes, latencies of the small ones, and the cost of locked memory."""
    small = [one for one in readings if one.size_bytes <= _LATENCY_SIZE]
    large = [one for one in readings if one.size_bytes > _LATENCY_SIZE] or readings
    panels = tuple(
        draw_links(memory, [one for one in readings if one.way == memory]) for memory in MEMORIES
    )
    latencies = (tabulate_links("Latencies", "memory", small, latency=True),) if small else ()
    return Report(
        name=NAME,
        title="Copies between host memory and the GPU, from the call to the last byte; both: one "
        "each way at once, rates of both together.",
        hardware=hardware,
        findings=name_wrong(name_wrong_copies(readings)),
        tables=(
            tabulate_links("Rates", "memory", large, latency=False),
            *latencies,
            *((_tabulate_locks(locks),) if locks else ()),
        ),
        plots=(Plot("", f"{NAME}: pageable, registered and pinned", panels, same_y=True),),
        rows=(*make_rows(readings), *map(_make_lock_row, _list_lock_seconds(locks))),
        passed=all(one.right for one in readings),
    )


def _tabulate_locks(locks: Sequence[LockReading]) -> Table:
    cells = tuple(
        (
            format_size(one.size_bytes),
            format_milliseconds(one.register_seconds),
            format_milliseconds(one.unregister_seconds),
            format_milliseconds(one.allocate_seconds),
        )
        for one in locks
    )
    return Table("Page-locking, ms", ("size", "register", "unregister", "allocate"), cells)


def _list_lock_seconds(locks: Sequence[LockReading]) -> list[tuple[str, int, float]]:
    """What is done, with how much, and how long it takes."""
    return [
        (what, one.size_bytes, seconds)
        for one in locks
        for what, seconds in (
            ("register", one.register_seconds),
            ("unregister", one.unregister_seconds),
            ("allocate", one.allocate_seconds),
        )
    ]


def _make_lock_row(lock: tuple[str, int, float]) -> Row:
    what, size_bytes, seconds = lock
    return {"way": what, "size_bytes": size_bytes, "median_seconds": seconds}
