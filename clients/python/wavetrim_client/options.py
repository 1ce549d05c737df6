"""How a product is to be computed; the service decides what is left out."""

import math
from collections.abc import Iterable
from typing import Any, Literal, TypedDict

import numpy as np

Accuracy = Literal["strict", "library", "float32", "float64"]
"""How exact the GPU's sums are: strict (IEEE, in the order of k), library (as NumPy's), or with the
errors of float32 or float64, for which tensor cores may be used."""


Storage = Literal["disk", "memory"]
"""Where the result of a job is kept; in memory it ends with the service."""


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


def check_names(names: Iterable[str], kind: type[PlanOptions], *others: str) -> None:
    """Refuse options that there are not.

    Args:
        names: Those that were given.
        kind: The options that there are.
        others: Further arguments of the call.

    Raises:
        TypeError: There is no such option; the message says which there are.
    """
    known = [*kind.__annotations__, *others]
    for name in names:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(known)}")


def describe_options(
    *,
    f: int | Literal["auto"] = "auto",
    kernel: str | None = None,
    tile: str | None = None,
    accuracy: Accuracy | None = None,
    sms: int | None = None,
    devices: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    verify: bool = False,
) -> dict[str, Any]:
    """The options that differ from their defaults, as the service takes them.

    Scalars of NumPy's become Python's, which can be written as JSON.

    Raises:
        TypeError: There is no such option.
        ValueError: A factor is not a finite number.
    """
    asked = {
        "f": (f, "auto"),
        "kernel": (kernel, None),
        "tile": (tile, None),
        "accuracy": (accuracy, None),
        "sms": (sms, None),
        "devices": (devices, None),
        "alpha": (alpha, 1.0),
        "beta": (beta, 0.0),
        "verify": (verify, False),
    }
    plain = {name: (read_scalar(value), default) for name, (value, default) in asked.items()}
    for name in ("alpha", "beta"):
        _check_factor(name, plain[name][0])
    return {name: value for name, (value, default) in plain.items() if value != default}


def _check_factor(name: str, value: object) -> None:
    is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if not is_finite:
        raise ValueError(f"{name} is {value!r}; it must be a finite real number")


def read_scalar(value: Any) -> Any:
    """A scalar of NumPy's as one of Python's; anything else as it is."""
    scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(scalar, np.floating):
        return float(scalar)  # `item` of a long double is itself
    return scalar.item() if isinstance(scalar, np.generic) else scalar
