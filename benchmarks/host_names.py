"""What contests and sweeps of F are called, in the log and among what was left out."""

from benchmarks.host_suite import name_shape
from benchmarks.measured import Shape


def name_product(shape: Shape, dtype: str) -> str:
    """All contests of a product: "4096³ float32"."""
    return f"{name_shape(shape)} {dtype}"


def name_contest(shape: Shape, dtype: str, memory: str, sms: int | None = None) -> str:
    """One contest: "4096³ float32 pinned".

    Args:
        shape: M, N, K.
        dtype: Element type.
        memory: Kind of host memory.
        sms: Multiprocessors that the GPU is held to; None for all.
    """
    product = name_product(shape, dtype)
    return f"{product} {memory}" if sms is None else f"{product} on {sms} multiprocessors"


def name_sweeps(shape: Shape, dtype: str) -> str:
    """The sweeps of a product with all budgets of multiprocessors: "F at 4096³ float32"."""
    return f"F at {name_product(shape, dtype)}"


def name_sweep(shape: Shape, dtype: str, sms: int | None) -> str:
    """One sweep: "F at 4096³ float32, 32 multiprocessors".

    Args:
        shape: M, N, K.
        dtype: Element type.
        sms: Multiprocessors that the GPU is held to; None for all.
    """
    return f"{name_sweeps(shape, dtype)}, {'all' if sms is None else sms} multiprocessors"
