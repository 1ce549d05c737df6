"""The probes by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.errors import FieldError
from scheduler.experiments.bench import Bench
from scheduler.experiments.report import Report
from scheduler.probes import (
    banks,
    constants,
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
    waves,
)


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that can be measured.

    Attributes:
        name: Its name in the command.
        shows: What it shows, in words.
        run: Measures it.
    """

    name: str
    shows: str
    run: Callable[[Bench], Report]


PROBES: Final = tuple(
    Probe(module.NAME, module.SHOWS, module.run_probe)
    for module in (
        strides,
        offsets,
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
)
"""Global memory first, then what is on a multiprocessor, then the links, then the kernels."""


def find_probe(name: str) -> Probe:
    """The probe of that name.

    Raises:
        FieldError: There is none.
    """
    for probe in PROBES:
        if probe.name == name:
            return probe
    raise FieldError("NAME", name, f"one of {', '.join(probe.name for probe in PROBES)}")
