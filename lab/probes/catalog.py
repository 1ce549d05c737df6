"""The probes, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wavetrim.lab.probes import (
    copies,
    cpu_rows,
    cycles,
    loads,
    overlap,
    registers,
    row_copies,
    transfers,
    waves,
)
from wavetrim.lab.reports.bench import Bench
from wavetrim.lab.reports.report import Report
from wavetrim.scheduler.errors import FieldError


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe.

    Attributes:
        name: Name in the command.
        shows: Description for the command's help.
        run: Measures and reports.
        needs_gpu: Whether it measures a GPU.
    """

    name: str
    shows: str
    run: Callable[[Bench], Report]
    needs_gpu: bool = True


def _of_copies(probe: copies.CopyProbe) -> Probe:
    return Probe(probe.name, probe.shows, probe.run)


PROBES: Final = (
    *map(_of_copies, (copies.STRIDED, copies.OFFSET, copies.VECTORS, copies.PITCHED)),
    Probe(loads.NAME, loads.SHOWS, loads.run_probe),
    _of_copies(copies.TRANSPOSES),
    Probe(cycles.BANKS, cycles.BANKS_SHOW, cycles.run_banks),
    Probe(cycles.CONSTANTS, cycles.CONSTANTS_SHOW, cycles.run_constants),
    Probe(registers.NAME, registers.SHOWS, registers.run_probe),
    Probe(transfers.TRANSFERS, transfers.TRANSFERS_SHOW, transfers.run_transfers),
    Probe(overlap.OVERLAP, overlap.OVERLAP_SHOWS, overlap.run_overlap),
    Probe(row_copies.NAME, row_copies.SHOWS, row_copies.run_probe),
    Probe(overlap.LAUNCHES, overlap.LAUNCHES_SHOW, overlap.run_launches),
    Probe(transfers.PEERS, transfers.PEERS_SHOW, transfers.run_peers),
    Probe(waves.NAME, waves.SHOWS, waves.run_probe),
    Probe(cpu_rows.NAME, cpu_rows.SHOWS, cpu_rows.run_probe, needs_gpu=False),
)
"""Global memory first, then multiprocessors, links, kernels, and the CPU."""


def find_probe(name: str) -> Probe:
    """The probe of that name."""
    for probe in PROBES:
        if probe.name == name:
            return probe
    raise FieldError("NAME", name, f"one of {', '.join(probe.name for probe in PROBES)}")
