"""The probes by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.experiments.bench import Bench, CpuBench
from wavetrim.scheduler.experiments.report import Report
from wavetrim.scheduler.probes import (
    banks,
    constants,
    cpu_rows,
    launches,
    loads,
    offsets,
    overlap,
    peers,
    pitches,
    registers,
    row_copies,
    strides,
    transfers,
    transposes,
    vectors,
    waves,
)


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that can be measured.

    Attributes:
        name: Its name in the command.
        shows: What it shows, in words.
        run: Measures it.
        run_without_gpu: Measures it where there is no GPU; None if it needs one.
    """

    name: str
    shows: str
    run: Callable[[Bench], Report]
    run_without_gpu: Callable[[CpuBench], Report] | None = None


PROBES: Final = (
    *(
        Probe(module.NAME, module.SHOWS, module.run_probe)
        for module in (
            strides,
            offsets,
            vectors,
            pitches,
            loads,
            transposes,
            banks,
            constants,
            registers,
            transfers,
            overlap,
            row_copies,
            launches,
            peers,
            waves,
        )
    ),
    Probe(cpu_rows.NAME, cpu_rows.SHOWS, cpu_rows.run_probe, cpu_rows.run_probe),
)
"""Global memory first, then what is on a multiprocessor, then the links, the kernels, the CPU."""


def find_probe(name: str) -> Probe:
    """The probe of that name.

    Raises:
        FieldError: There is none.
    """
    for probe in PROBES:
        if probe.name == name:
            return probe
    raise FieldError("NAME", name, f"one of {', '.join(probe.name for probe in PROBES)}")
