"""Options of a product's plan, and of a process that computes.

The planner decides whatever a caller leaves open.
"""

import json
import operator
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from wavetrim.scheduler.errors import PlanError

RowsOrAuto = int | Literal["auto"]
"""A caller's F."""

Accuracy = Literal["strict", "library", "float32", "float64"]
"""Accuracy of the GPU's sums.

- strict: IEEE fused multiply-adds of the element type, in the order of k, but for tiles that *bulk*
  divides along K (`kernels/gemm/tails.py`).
- library: as NumPy and cuBLAS sum, in the element type and in any order; strict sums are allowed.
- float32, float64: errors no larger than those of sums in that type; tensor cores are allowed. Only
  for products in that type.
"""

ACCURACIES: Final[tuple[Accuracy, ...]] = get_args(Accuracy)

DEFAULT_ACCURACY: Final[Accuracy] = "library"
"""Accuracy where neither an accuracy nor a kernel is given."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How a product is to be computed.

    Attributes:
        kernel: A name of the catalog, or "auto" for the fastest that the other options allow.
        tile: A tile of that kernel ("32", "64x128x16"); None for the fastest.
        f: Rows of C for the CPU, 0…M, or "auto" for the best.
        accuracy: Accuracy of the GPU's sums; None for `DEFAULT_ACCURACY`, or for that of the given
            kernel.
        sms: Limit of multiprocessors for the GPU's kernels, from 1; None for all.
        devices: GPUs that may be used: "none", or CUDA's indices such as "0,1"; None for all. The
            planner uses a further one only if that saves enough time.
    """

    kernel: str = "auto"
    tile: str | None = None
    f: RowsOrAuto = "auto"
    accuracy: Accuracy | None = None
    sms: int | None = None
    devices: str | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "PlanOptions":
        """The options among a request's fields; the planner decides those that are missing.

        Without any it is `NO_OPTIONS` itself: plans are found, and messages written, faster.
        """
        options = cls(**{name: document[name] for name in OPTION_NAMES if name in document})
        return NO_OPTIONS if options == NO_OPTIONS else options


DEVICES_PATTERN: Final = re.compile(r"none|\d{1,4}(,\d{1,4})*")
"""A choice of GPUs."""

OPTION_NAMES: Final = tuple(field.name for field in fields(PlanOptions))

NO_OPTIONS: Final = PlanOptions()
"""Everything is left to the planner."""


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """What a process that computes may use of its machine.

    Attributes:
        kernel_cache_dir: Folder of compiled kernels, and of compiled C.
        profile_dir: Folder of stored calibrations; None for none.
        devices: GPUs to use, as `select_devices` takes them; None for all.
        cpu_threads: Threads of the CPU part; None for `count_default_threads()`.
        gpu_memory_bytes: Limit of GPU memory; None for all free memory.
        memory_bytes: Memory that the machine has; None if that is not known.
        stall_seconds: Time without progress of a GPU after which an engine ends.
    """

    kernel_cache_dir: Path
    profile_dir: Path | None = None
    devices: str | None = None
    cpu_threads: int | None = None
    gpu_memory_bytes: int | None = None
    memory_bytes: int | None = None
    stall_seconds: float = 60.0

    def as_json(self) -> str:
        """The options as they are given to an engine."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def read(cls, text: str) -> "MachineOptions":
        """Read what `as_json` wrote."""
        given = json.loads(text)
        names = "kernel_cache_dir", "profile_dir"
        folders = {name: Path(given[name]) for name in names if given[name]}
        return cls(**(given | folders))


def check_rows(f: object) -> RowsOrAuto:
    """Check the type of F; the planner compares it with the rows of C.

    Raises:
        PlanError: It is neither "auto" nor a whole number from 0.
    """
    if isinstance(f, str) and f == "auto":
        return "auto"
    rows = read_whole(f)
    if rows is not None and rows >= 0:
        return rows
    raise PlanError("f", f, '"auto" or a whole number of rows, 0…M')


def check_sms(sms: object) -> int | None:
    """Check the type of a limit of multiprocessors; the planner compares it with the GPU's.

    Raises:
        PlanError: It is neither None nor a whole number.
    """
    if sms is None:
        return None
    if (most := read_whole(sms)) is not None:
        return most
    raise PlanError("sms", sms, "a whole number from 1")


def read_whole(value: object) -> int | None:
    """A whole number of Python's or NumPy's as one of Python's; None if it is no such number."""
    if not isinstance(value, bool):
        with suppress(TypeError):  # all arrays have `__index__`, but few of them an index
            return operator.index(value)  # type: ignore[arg-type]
    return None


def check_devices(devices: object) -> str | None:
    """Check the form of a choice of GPUs; the planner looks for them.

    Raises:
        PlanError: It is neither None, "none" nor indices.
    """
    if devices is None or (isinstance(devices, str) and DEVICES_PATTERN.fullmatch(devices)):
        return devices
    raise PlanError("devices", devices, '"none", or indices such as "0,1"')


def find_accuracy(name: str) -> Accuracy:
    """Check the name of an accuracy.

    Raises:
        PlanError: No accuracy has that name.
    """
    for accuracy in ACCURACIES:
        if accuracy == name:
            return accuracy
    raise PlanError("accuracy", name, f"one of {', '.join(ACCURACIES)}")
