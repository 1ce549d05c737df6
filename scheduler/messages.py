"""What service and engine tell each other: JSON objects, one a line, over a socket pair.

To the engine: run (`RunRequest`), cancel, ping, shutdown. From it: ready, planned, progress, pong,
and one of succeeded, failed and cancelled for each run. Matrices never travel in messages: both
sides map the same files.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wavetrim.scheduler.errors import SchedulerError
from wavetrim.scheduler.wishes import NO_WISHES, WISH_NAMES, Wishes

FINAL_TYPES: Final = frozenset({"succeeded", "failed", "cancelled"})
"""Types of the message that ends a run."""


class MessageError(SchedulerError):
    """A line that is no message."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in a file.

    Attributes:
        path: The file.
        offset_bytes: Where the elements begin.
        rows: Rows of the matrix.
        columns: Columns of the matrix.
        dtype: NumPy's name of the element type.
        fortran_order: True when columns, not rows, are contiguous.
    """

    path: str
    offset_bytes: int
    rows: int
    columns: int
    dtype: str
    fortran_order: bool = False

    def map(self, *, writable: bool = False) -> NDArray[Any]:
        """Map the elements into memory, rows x columns. Links are not followed.

        Raises:
            OSError: The file is not there, is a link, or cannot be opened.
            ValueError: It is shorter than the matrix.
        """
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.path, flags), "r+b" if writable else "rb") as file:
            return np.memmap(
                file,
                dtype=np.dtype(self.dtype),
                mode="r+" if writable else "r",
                offset=self.offset_bytes,
                shape=(self.rows, self.columns),
                order="F" if self.fortran_order else "C",
            )


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One product for the engine: out ← alpha A·B + beta C.

    Attributes:
        job: Id that the engine's messages about this run carry.
        a: M x K.
        b: K x N.
        c: M x N; None when beta is 0.
        out: M x N, row-major; overwritten.
        alpha: Factor of the product.
        beta: Factor of C.
        wishes: Kernel, tile, F, accuracy and multiprocessors, as far as they are not left open;
            each a field of its own in the message.
        verify: Whether the product is checked.
        cpu_only: Leave the GPU alone, whatever is wished.
    """

    job: str
    a: Operand
    b: Operand
    c: Operand | None
    out: Operand
    alpha: float = 1.0
    beta: float = 0.0
    wishes: Wishes = NO_WISHES
    verify: bool = False
    cpu_only: bool = False

    def as_message(self) -> dict[str, Any]:
        """The request as a message."""
        fields = asdict(self)
        wishes = fields.pop("wishes")
        return {"type": "run", **fields, **wishes}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> "RunRequest":
        """The request that `as_message` was called on."""
        fields = {k: v for k, v in message.items() if k not in ("type", *WISH_NAMES)}
        for name in ("a", "b", "c", "out"):
            if fields[name] is not None:
                fields[name] = Operand(**fields[name])
        return cls(**fields, wishes=Wishes.read(message))


def encode_message(message: Mapping[str, Any]) -> bytes:
    """One line. Figures that JSON has no word for (NaN, infinities) become null."""
    try:
        text = json.dumps(message, allow_nan=False)
    except ValueError:
        text = json.dumps(_replace_non_finite(message), allow_nan=False)
    return text.encode() + b"\n"


def decode_message(line: bytes) -> dict[str, Any]:
    """The message of one line.

    Raises:
        MessageError: The line is not a JSON object with a type.
    """
    try:
        message = json.loads(line)
    except ValueError as error:
        raise MessageError(f"not JSON: {line[:100]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise MessageError(f"not a message: {line[:100]!r}")
    return message


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _replace_non_finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    return value
