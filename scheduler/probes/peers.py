"""Two GPUs: copies from one to the other, directly and through the host."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.errors import DeviceUnavailable
from wavetrim.kernels.peer_probes import can_access_peer, measure_peers
from wavetrim.kernels.readings import LinkReading
from wavetrim.scheduler.experiments.bench import Bench, Hardware
from wavetrim.scheduler.experiments.plot import Plot
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes.links import draw_links, make_rows, name_wrong_copies, tabulate_links
from wavetrim.scheduler.probes.rates import name_wrong

NAME: Final = "peers"
SHOWS: Final = "copies between two GPUs, directly and staged through the host"
SIZES: Final = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
RUNS: Final = 9


def run_probe(bench: Bench, sizes: Sequence[int] = SIZES) -> Report:
    """Measure every size between the first two GPUs.

    Raises:
        DeviceUnavailable: There is only one.
        KernelsError: There is not enough memory, or a copy fails.
    """
    if not bench.others:
        raise DeviceUnavailable(f"the probe {NAME} measures two GPUs, and there is one")
    first, second = bench.device.index, bench.others[0].index
    bench.tell(0.0, f"GPUs {first} and {second}")
    readings = measure_peers(first, second, bench.cache_dir, sizes, RUNS)
    return make_report(readings, bench.hardware, direct=can_access_peer(first, second))


def make_report(readings: Sequence[LinkReading], hardware: Hardware, *, direct: bool) -> Report:
    """Rates and latencies of each way."""
    ways = dict.fromkeys(one.way for one in readings)
    panels = tuple(draw_links(way, [one for one in readings if one.way == way]) for way in ways)
    access = "can" if direct else "cannot"
    least = min(one.size_bytes for one in readings)
    small = [one for one in readings if one.size_bytes == least]
    large = [one for one in readings if one.size_bytes > least] or readings
    return Report(
        name=NAME,
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
        plots=(Plot("", f"{NAME}: ways from GPU to GPU", panels, same_y=True),),
        rows=make_rows(readings),
        passed=all(one.right for one in readings),
    )
