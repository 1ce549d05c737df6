"""How a product was computed, read from the headers of its answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_METRIC: Final = re.compile(r"\s*([A-Za-z0-9_-]+)\s*;\s*dur=([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Details:
    """How a product was computed.

    Attributes:
        f: Rows that the plan gave to the CPU; None if the service does not say.
        f_actual: Rows that the CPU computed; None if the service does not say.
        accuracy: How exact the sums of the GPU's kernel are; None if no kernel ran.
        seconds: Measured parts of the time: "queue", "kernel", "transfer", "gpu", "cpu", "total".
    """

    f: int | None
    f_actual: int | None
    accuracy: str | None
    seconds: Mapping[str, float]


def read_details(headers: Mapping[str, str]) -> Details:
    """Read the details from an answer's headers; a missing or unreadable number is None."""
    return Details(
        f=_read_whole(headers.get("wavetrim-f")),
        f_actual=_read_whole(headers.get("wavetrim-f-actual")),
        accuracy=headers.get("wavetrim-accuracy"),
        seconds={
            name: float(milliseconds) / 1e3
            for name, milliseconds in _METRIC.findall(headers.get("server-timing", ""))
        },
    )


def _read_whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
