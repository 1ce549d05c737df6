"""Seconds, bytes and rates in words: three digits and a unit."""

from collections.abc import Sequence

from wavetrim.scheduler.errors import FieldError

_SECONDS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_BYTES = ((2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"), (2**40, "TiB"))
_GFLOPS = ((1.0, "GFLOP/s"), (1e3, "TFLOP/s"))


def format_seconds(seconds: float) -> str:
    """Three significant digits: "12.3 ms"."""
    return _format(seconds, _SECONDS) if seconds else "0 s"


def format_bytes(count: int) -> str:
    """Three significant digits in powers of two: "16.0 MiB"."""
    return _format(count, _BYTES) if count >= 1024 else f"{count} B"


def format_gflops(gflops: float) -> str:
    """Three significant digits: "66.9 TFLOP/s"."""
    return _format(gflops, _GFLOPS)


def read_size(field: str, text: str) -> int:
    """A size such as "2GiB" in bytes."""
    from pydantic import ByteSize, TypeAdapter, ValidationError  # plans do without

    try:
        size_bytes = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size_bytes = -1
    if not 0 <= size_bytes < 2**63:
        raise FieldError(field, text, "a size such as 20GiB")
    return size_bytes


def _format(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Three significant digits without an exponent, in the first unit that needs no more."""
    size, unit = next((one for one in units if value / one[0] < 999.5), units[-1])
    shown = value / size
    digits = 0 if shown >= 99.95 else 1 if shown >= 9.995 else 2
    return f"{shown:.{digits}f} {unit}"
