"""The description of a matrix, the same before and after it is stored."""

from dataclasses import dataclass
from pathlib import Path

from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.storage.memory.extent import Extent


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix, or a stack of matrices. Once it is stored it never changes.

    Attributes:
        id: Opaque id.
        rows: Rows of the matrix, or of each of a stack.
        columns: Columns, likewise.
        dtype: NumPy's name of the element type.
        fortran_order: True when the elements lie column after column.
        offset_bytes: Where the elements begin in the file.
        size_bytes: Length of the whole .npy file.
        path: The .npy file.
        owner: Name of the tenant to whom it belongs.
        stack: How many matrices a stack has; None for a single matrix.
        digest_sha256: SHA-256 of the whole file in hexadecimal, if it is known.
        created_at: When it was stored, in UTC seconds since the epoch.
        crc32: CRC-32 of the whole file; None if an earlier version stored it.
        on_disk: Whether it has a file; otherwise it is in memory only.
        damaged_at: When the file was found to have changed, in UTC seconds; None if it was not.
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
    stack: int | None = None
    digest_sha256: str | None = None
    created_at: float = 0.0
    crc32: int | None = None
    on_disk: bool = True
    damaged_at: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, as an array's."""
        return make_shape(self.rows, self.columns, self.stack)

    @property
    def all_rows(self) -> int:
        """Rows of all its matrices."""
        return self.rows if self.stack is None else self.stack * self.rows

    @property
    def unfinished(self) -> Path:
        """Its file while it is written."""
        return self.path.with_suffix(".part")

    @property
    def etag(self) -> str:
        """A strong entity tag: a matrix never changes, so its id is enough."""
        return f'"{self.id}"'

    def locate(self, extent: Extent | None = None) -> Operand:
        """Where the engine finds the elements: in memory, or in the file."""
        begin = 0 if extent is None else extent.offset_bytes
        return Operand(
            str(self.path) if extent is None else extent.slab,
            begin + self.offset_bytes,
            self.rows,
            self.columns,
            self.dtype,
            self.fortran_order,
            stack=self.stack,
        )


def make_shape(rows: int, columns: int, stack: int | None) -> tuple[int, ...]:
    """The sizes of a matrix, or of a stack of them, as an array's."""
    return (rows, columns) if stack is None else (stack, rows, columns)


def count_data_bytes(rows: int, columns: int, dtype: str, stack: int | None = None) -> int:
    """Bytes of the elements of a matrix, or of a stack."""
    matrix_bytes = rows * columns * ITEM_BYTES[dtype]
    return matrix_bytes if stack is None else stack * matrix_bytes
