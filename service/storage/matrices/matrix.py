"""The description of a matrix, before and after it is stored."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavetrim.scheduler.problem import ITEM_BYTES


@dataclass(frozen=True, slots=True)
class PendingMatrix:
    """A matrix that is not published yet.

    Attributes:
        id: Opaque id, which it keeps.
        rows: First size.
        columns: Second size.
        dtype: NumPy's name of the element type.
        fortran_order: True when the elements lie column after column.
        offset_bytes: Where the elements begin in the file.
        size_bytes: Length of the whole file.
        path: The unfinished file.
        owner: Name of the tenant to whom it will belong.
    """

    id: str
    rows: int
    columns: int
    dtype: str
    fortran_order: bool
    offset_bytes: int
    size_bytes: int
    path: Path
    owner: str = ""

    def operand(self) -> dict[str, Any]:
        """Where the engine finds the elements, ready for JSON."""
        return _describe_operand(self)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A stored matrix; it never changes.

    Attributes:
        id: Opaque id.
        rows: First size.
        columns: Second size.
        dtype: NumPy's name of the element type.
        fortran_order: True when the elements lie column after column.
        offset_bytes: Where the elements begin in the file.
        size_bytes: Length of the whole .npy file.
        digest_sha256: SHA-256 of the whole file in hexadecimal, if it is known.
        created_at: UTC seconds since the epoch.
        path: The .npy file.
        crc32: CRC-32 of the whole file; None if an earlier version stored it.
        place: Where it is: "disk" or "memory".
        damaged_at: When the file was found to have changed, in UTC seconds; None if it was not.
        owner: Name of the tenant to whom it belongs.
    """

    id: str
    rows: int
    columns: int
    dtype: str
    fortran_order: bool
    offset_bytes: int
    size_bytes: int
    digest_sha256: str | None
    created_at: float
    path: Path
    crc32: int | None = None
    place: str = "disk"
    damaged_at: float | None = None
    owner: str = ""

    @property
    def etag(self) -> str:
        """A strong entity tag: a matrix never changes, so its id is enough."""
        return f'"{self.id}"'

    def operand(self) -> dict[str, Any]:
        """Where the engine finds the elements, ready for JSON."""
        return _describe_operand(self)


def count_data_bytes(rows: int, columns: int, dtype: str) -> int:
    """Bytes of a matrix's elements."""
    return rows * columns * ITEM_BYTES[dtype]


def _describe_operand(matrix: Matrix | PendingMatrix) -> dict[str, Any]:
    return {
        "slab": str(matrix.path),
        "offset_bytes": matrix.offset_bytes,
        "rows": matrix.rows,
        "columns": matrix.columns,
        "dtype": matrix.dtype,
        "fortran_order": matrix.fortran_order,
    }
