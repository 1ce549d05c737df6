"""The .npy format, read strictly: only literals are evaluated, and nothing is allocated.

The format is that of NEP 1 (versions 1.0, 2.0 and 3.0): a magic string, two version bytes, the
header's length (2 or 4 bytes, little-endian), the header, and the elements. The header is a Python
dictionary with the keys descr, fortran_order and shape, which NumPy reads.

The format has no name for bfloat16. `numpy.save` writes such a matrix as elements of two raw bytes,
`<V2`. So it is stored, sent and received like that: no other type uses raw bytes.
"""

import io
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np

from wavetrim.native.element_types import find_dtype
from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.storage.errors import DtypeRefused, NpyError
from wavetrim.service.storage.memory.extent import PAGE_BYTES

MAX_HEADER_BYTES: Final = 10_000
"""The longest header that is read."""

LARGE_BYTES: Final = 2**20
"""Smaller matrices are stored byte for byte as NumPy saves them, larger ones begin their elements
at a whole page; chosen."""

DTYPES: Final[dict[str, str]] = {
    "<f2": "float16",
    "<V2": "bfloat16",
    "|V2": "bfloat16",
    "<f4": "float32",
    "<f8": "float64",
    "<c8": "complex64",
    "<c16": "complex128",
    "|i1": "int8",
    "<i2": "int16",
    "<i4": "int32",
    "<i8": "int64",
    "|u1": "uint8",
    "<u2": "uint16",
    "<u4": "uint32",
    "<u8": "uint64",
}
"""The element types that are accepted: `descr` in a .npy header, and NumPy's name."""

_MAGIC: Final = b"\x93NUMPY"
_LENGTH_BYTES: Final = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_OTHER_FILES: Final = {
    b"PK": "zip",
    b"\x1f\x8b": "gzip",
    b"\x89HDF": "HDF5",
    b"MATLAB": "MATLAB",
    b"\x80": "pickle",
    b"PAR1": "Parquet",
    b"\x89PNG": "PNG",
    b"%PDF": "PDF",
    b"{": "JSON",
}
"""How files of other formats begin."""

_READERS: Final = {"text": "; numpy.loadtxt reads text", "zip": "; numpy.load reads .npz"}
"""How NumPy reads another format."""

MAX_SIZE: Final = 10**17 - 1
"""The largest size of a matrix, and the most rows of all matrices of a stack together."""

_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of a matrix, or of a stack of matrices, lie in a file or in memory.

    Attributes:
        rows: Rows of the matrix, or of each of a stack.
        columns: Columns, likewise.
        dtype: NumPy's name of the element type, one of the values of `DTYPES`.
        fortran_order: True when the elements lie column after column; in a stack, the first
            elements of all columns lie together.
        offset_bytes: Where the elements begin in the file.
        stack: How many matrices a stack has; None for a single matrix.
    """

    rows: int
    columns: int
    dtype: str
    fortran_order: bool = False
    offset_bytes: int = 0
    stack: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, as an array's."""
        return make_shape(self.rows, self.columns, self.stack)

    @property
    def all_rows(self) -> int:
        """Rows of all its matrices."""
        return self.rows if self.stack is None else self.stack * self.rows

    @property
    def data_bytes(self) -> int:
        """Bytes of all elements."""
        count = 1 if self.stack is None else self.stack
        return count * self.rows * self.columns * ITEM_BYTES[self.dtype]

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file."""
        return self.offset_bytes + self.data_bytes

    def address(self, where: int | str, begin: int) -> Operand:
        """Where the engine finds the elements: from a byte on, in a slab or in the file of a path.

        Args:
            where: Id of the slab, or the path.
            begin: Where the elements begin there.
        """
        return Operand(
            where, begin, self.rows, self.columns, self.dtype, self.fortran_order, stack=self.stack
        )

    def format_header(self, *, stored: bool = False) -> bytes:
        """The header that `numpy.save` writes, version 1.0.

        Args:
            stored: Whether the header of a large matrix is padded with spaces to a whole page.
        """
        size = self.rows, self.columns, self.stack
        return _format_header(size, self.dtype, self.fortran_order, stored)

    def __str__(self) -> str:
        return f"shape {self.shape} of {self.dtype}"


def make_shape(rows: int, columns: int, stack: int | None) -> tuple[int, ...]:
    """The sizes of a matrix, or of a stack of them, as an array's."""
    return (rows, columns) if stack is None else (stack, rows, columns)


def parse_header(prefix: bytes) -> Layout | None:
    """Reads the header from the first bytes of a .npy file.

    Args:
        prefix: As much of the file as has arrived, from its first byte.

    Returns:
        The header, or None if more bytes are needed; 12 + `MAX_HEADER_BYTES` are always enough.

    Raises:
        DtypeRefused: The elements are not of one of `DTYPES`.
        NpyError: The bytes are not the beginning of a .npy file with two or three dimensions.
    """
    if not _MAGIC.startswith(prefix[: len(_MAGIC)]):
        found = _name_format(prefix)
        limit = f".npy, as numpy.save writes it{_READERS.get(found, '')}"
        raise NpyError("format", found, limit)
    if len(prefix) < 8:
        return None
    version = (prefix[6], prefix[7])
    if version not in _LENGTH_BYTES:
        raise NpyError("version", f"{version[0]}.{version[1]}", "1.0, 2.0 or 3.0")
    begin = 8 + _LENGTH_BYTES[version]
    if len(prefix) < begin:
        return None
    header_bytes = int.from_bytes(prefix[8:begin], "little")
    if header_bytes > MAX_HEADER_BYTES:
        raise NpyError("header length", header_bytes, f"at most {MAX_HEADER_BYTES} bytes")
    end = begin + header_bytes
    if len(prefix) < end:
        return None
    return _read_header(prefix[begin:end], end)


@lru_cache(maxsize=1024)
def _format_header(
    size: tuple[int, int, int | None], dtype: str, fortran_order: bool, stored: bool
) -> bytes:
    shape = make_shape(*size)
    buffer = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(find_dtype(dtype))
    described = {"descr": descr, "fortran_order": fortran_order, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)
    header = buffer.getvalue()
    if not stored or prod(shape) * ITEM_BYTES[dtype] < LARGE_BYTES:
        return header
    padding = -len(header) % PAGE_BYTES
    length = (len(header) + padding - 10).to_bytes(2, "little")
    return header[:8] + length + header[10:-1] + b" " * padding + b"\n"


@lru_cache(maxsize=256)
def _read_header(raw: bytes, offset_bytes: int) -> Layout:
    """Reads the header's dictionary with NumPy, which takes no more than literals."""
    # Versions differ in the length before it, and in names of structured elements.
    stream = io.BytesIO(len(raw).to_bytes(4, "little") + raw)
    try:
        shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(
            stream, max_header_size=MAX_HEADER_BYTES
        )
    except Exception as error:  # Python's parser runs, which fails in many ways
        limit = "a dictionary of descr, fortran_order and shape, as numpy.save writes it"
        raise NpyError("header", _shorten(raw.decode("latin-1")), limit) from error
    is_plain = dtype.names is None and dtype.subdtype is None
    name = DTYPES.get(dtype.str) if is_plain else None
    if name is None:
        kind = dtype.name if dtype.isnative else f"big-endian {dtype.name}"
        kind = "Python objects, which need pickle" if dtype.hasobject else kind
        limit = f"one of {', '.join(DTYPES)}; this is {kind if is_plain else 'structured elements'}"
        raise DtypeRefused("descr", _shorten(str(np.lib.format.dtype_to_descr(dtype))), limit)
    _check_shape(shape)
    *stack, rows, columns = shape
    return Layout(rows, columns, name, fortran_order, offset_bytes, *stack)


def _check_shape(shape: tuple[int, ...]) -> None:
    shown = _shorten(str(shape))
    if len(shape) not in (2, 3):
        limit = f"of 2 dimensions, or of 3 for a stack; it has {len(shape)}"
        raise NpyError("shape", shown, limit)
    if any(type(size) is not int or not 0 <= size <= MAX_SIZE for size in shape):
        raise NpyError("shape", shown, f"sizes from 0 to {MAX_SIZE}")
    if len(shape) > 2 and shape[0] * shape[1] > MAX_SIZE:
        raise NpyError("shape", shown, f"at most {MAX_SIZE} rows of all matrices together")


def _name_format(prefix: bytes) -> str:
    """The format of a file that does not begin as a .npy file."""
    known = (name for begin, name in _OTHER_FILES.items() if prefix.startswith(begin))
    plain = all(32 <= byte < 127 or byte in b"\t\r\n" for byte in prefix[:64])
    return next(known, "text" if plain else "unknown")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
