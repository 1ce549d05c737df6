"""Seconds, bytes and rates in words: three digits and a unit."""

from wavetrim.scheduler.errors import FieldError

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def format_seconds(seconds: float) -> str:
    """Three significant digits: "12.3 ms"."""
    if seconds == 0:
        return "0 s"
    fits = ((size, unit) for size, unit in _SECONDS if seconds >= size * 0.9995)
    size, unit = next(fits, (1e-9, "ns"))
    return f"{_round(seconds / size)} {unit}"


def format_bytes(count: int) -> str:
    """Three significant digits in powers of two: "16.0 MiB"."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 999.5 or unit == "TiB":
            return f"{_round(size)} {unit}"
    raise AssertionError("the last unit takes every size")


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


def format_gflops(gflops: float) -> str:
    """Three significant digits: "66.9 TFLOP/s"."""
    if gflops >= 999.5:
        return f"{_round(gflops / 1e3)} TFLOP/s"
    return f"{_round(gflops)} GFLOP/s"


def _round(value: float) -> str:
    """Three significant digits without an exponent."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
