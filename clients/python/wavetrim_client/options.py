"""How a product is to be computed; the service decides what is left out."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Accuracy = Literal["strict", "library", "float32", "float64"]
"""How exact the GPU's sums are: strict (IEEE, in the order of k), library (as NumPy's), or with the
errors of float32 or float64, for which tensor cores may be used."""


class PlanOptions(TypedDict, total=False):
    """The options of a plan.

    Attributes:
        f: Rows of C that the CPU computes, 0…M, or "auto" for the best.
        kernel: A kernel of the GPU part; None for the fastest.
        tile: A tile of that kernel, such as "64x128x16"; None for the fastest.
        accuracy: How exact the sums are; None for "library", or for that of the named kernel.
        sms: Multiprocessors that the GPU part may use; None for all.
        devices: GPUs that may be used: "none", or indices such as "0,1"; None for all.
    """

    f: int | Literal["auto"]
    kernel: str | None
    tile: str | None
    accuracy: Accuracy | None
    sms: int | None
    devices: str | None


class PlanQuestion(PlanOptions, total=False):
    """The options of a plan, and numbers that take the place of the machine's.

    Attributes:
        dtype: Element type, float32 by default.
        memory: "pageable" (the default) or "pinned".
        device: Preset of a GPU, which need not be there ("H200"); None for the service's GPUs.
        cpu_threads: What if the CPU had so many threads.
        cpu_gflops: What if the CPU alone had this rate.
        link_gbytes_per_second: What if the GPU's link had this rate each way.
        resident: What if B were on the GPUs already.
        sm_count: Multiprocessors of a GPU that is described in place of a device.
        clock_mhz: Their clock.
        compute_capability: Its compute capability, such as "8.0".
        memory_gib: Its memory. These four are given together, or none.
        memory_clock_mhz: Clock of its memory; None for that of its multiprocessors.
        link_standard_gbytes_per_second: Rate of its link by the link's standard; None for PCIe 3.
        gpus: How many of it there are; None for one.
        drawing: Whether the answer has the schedule, and more points near the split.
    """

    dtype: DTypeLike
    memory: str
    device: str | None
    cpu_threads: int | None
    cpu_gflops: float | None
    link_gbytes_per_second: float | None
    resident: bool
    sm_count: int | None
    clock_mhz: int | None
    compute_capability: str | None
    memory_gib: int | None
    memory_clock_mhz: int | None
    link_standard_gbytes_per_second: float | None
    gpus: int | None
    drawing: bool


class ProductOptions(PlanOptions, total=False):
    """The options of a product.

    Attributes:
        alpha: Factor of A·B, 1.0 by default; a whole number for integer matrices.
        beta: Factor of C; 0.0 by default, and C is then not read.
        verify: Whether the service checks the product before it sends it.
    """

    alpha: float
    beta: float
    verify: bool


class MatmulOptions(ProductOptions, total=False):
    """The options of a product in one call.

    Attributes:
        c: An array of the product's shape; required if `beta` is not 0, else not read.
        dtype: Element type of the product; None for the operands'.
        out: An array of the product's shape and element type, which is filled and returned. If its
            elements are contiguous, the product is received into it without a copy.
    """

    c: ArrayLike | None
    dtype: DTypeLike | None
    out: NDArray[Any] | None


class JobOptions(ProductOptions, total=False):
    """The options of a job.

    Attributes:
        priority: Of the caller's jobs those of a higher priority go first; 0 by default.
        storage: Where the result is kept: "disk" by default, or "memory" until the service ends.
        labels: Up to 8 short names, by which jobs are listed and cancelled.
        deadline: When the job must have ended; it is refused if that cannot be expected. A datetime
            without a time zone is local time.
        timeout_seconds: How long the job may run; None for the service's own limit.
    """

    priority: int
    storage: Literal["disk", "memory"]
    labels: Sequence[str]
    deadline: datetime | str | None
    timeout_seconds: float | None


def describe_options(
    options: Mapping[str, Any], kind: type[PlanOptions], *others: str
) -> dict[str, Any]:
    """The options that are not None, as the service takes them.

    There are those of the kind; a refusal names the call's `others`, too.

    Raises:
        TypeError: There is no such option; the message says which there are.
        ValueError: A factor is not a finite number, or the labels are no list.
    """
    known = [*kind.__annotations__, *others]
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(known)}")
    plain = {name: _read_option(name, value) for name, value in options.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _read_option(name: str, value: Any) -> Any:
    """The value of an option as JSON has it: scalars of NumPy's become Python's."""
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        # `item` of a long double is itself.
        value = float(value) if value.dtype.kind == "f" else value.item()
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if name in ("alpha", "beta") and not is_number:
        raise ValueError(f"{name} is {value!r}; it must be a finite real number")
    if name == "labels" and value is not None:
        if isinstance(value, str):
            raise ValueError(f"labels is {value!r}; it must be a list of strings")
        return [*value]
    if name == "dtype":
        return np.dtype(value).name
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value
