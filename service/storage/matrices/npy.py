"""The .npy format, read strictly: nothing is evaluated, nothing is allocated.

The format is that of NEP 1 (versions 1.0, 2.0 and 3.0): a magic string, two version bytes, the
header's length (2 or 4 bytes, little-endian), the header, and the elements. The header is a Python
dictionary with the keys descr, fortran_order and shape, read here with a small grammar.

The format has no name for bfloat16. `numpy.save` writes such a matrix as elements of two raw bytes,
`<V2`. So it is stored, sent and received like that: no other type uses raw bytes.
"""

import io
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from wavetrim.native.element_types import find_dtype
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.storage.errors import DtypeRefused, NpyError
from wavetrim.service.storage.matrices.matrix import count_data_bytes, make_shape
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

_NAME: Final = re.compile(r"[<>=|]?[A-Za-z][A-Za-z0-9]{0,15}(\[\w+\])?")
_KEYS: Final = ("descr", "fortran_order", "shape")
_MAX_SIZE_DIGITS: Final = 17

MAX_SIZE: Final = 10**_MAX_SIZE_DIGITS - 1
"""The largest size of a matrix, and the most rows of all matrices of a stack together."""

_SHOWN_CHARACTERS: Final = 80

# White space and numbers as in Python's literals: NumPy reads all that is accepted here, too.
_SPACE: Final = r"[ \t\n]*"
_SIZE: Final = r"-?(?:0|[1-9][0-9]*)L?"  # Python 2 wrote an L

# A value that begins with "[" is the descr of structured elements, which is not parsed.
_STRING: Final = r"""(?:u?'[^'\\]*'|u?"[^"\\]*")"""
_ENTRY: Final = re.compile(
    rf"{_SPACE}(?P<key>{_STRING}){_SPACE}:{_SPACE}"
    rf"(?P<value>{_STRING}|True|False|\([-0-9L, \t\n]*\)|\[.*\]){_SPACE}(?:,|(?=\}}))",
    re.DOTALL,
)
_TUPLE: Final = re.compile(rf"\({_SPACE}(?:{_SIZE}{_SPACE},{_SPACE})*(?:{_SIZE}{_SPACE})?\)")


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What the header of a .npy file says.

    Attributes:
        rows: Rows of the matrix, or of each of a stack.
        columns: Columns, likewise.
        dtype: NumPy's name of the element type, one of the values of `DTYPES`.
        fortran_order: True when the elements lie column after column; in a stack, the first
            elements of all columns lie together.
        offset_bytes: Where the elements begin in the file that was read.
        stack: How many matrices a file with three dimensions has; None for a single matrix.
    """

    rows: int
    columns: int
    dtype: str
    fortran_order: bool
    offset_bytes: int
    stack: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, as in the header."""
        return make_shape(self.rows, self.columns, self.stack)

    @property
    def data_bytes(self) -> int:
        """Bytes of all elements."""
        return count_data_bytes(self.rows, self.columns, self.dtype, self.stack)

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file that was read."""
        return self.offset_bytes + self.data_bytes

    def __str__(self) -> str:
        return f"shape {self.shape} of {self.dtype}"


def parse_header(prefix: bytes) -> NpyHeader | None:
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
    return _read_header(prefix[begin:end], version, end)


@lru_cache(maxsize=256)
def format_header(
    rows: int,
    columns: int,
    dtype: str,
    *,
    fortran_order: bool = False,
    stack: int | None = None,
    stored: bool = False,
) -> bytes:
    """The header that `numpy.save` writes, version 1.0, for a matrix or a stack.

    Args:
        rows: Rows of the matrix, or of each of a stack.
        columns: Columns, likewise.
        dtype: NumPy's name of the element type.
        fortran_order: True when the elements lie column after column.
        stack: How many matrices a stack has; None for a single matrix.
        stored: Whether the header of a large matrix is padded with spaces to a whole page.
    """
    buffer = io.BytesIO()
    described = {
        "descr": np.lib.format.dtype_to_descr(find_dtype(dtype)),
        "fortran_order": fortran_order,
        "shape": make_shape(rows, columns, stack),
    }
    np.lib.format.write_array_header_1_0(buffer, described)
    header = buffer.getvalue()
    if not stored or count_data_bytes(rows, columns, dtype, stack) < LARGE_BYTES:
        return header
    padding = -len(header) % PAGE_BYTES
    length = (len(header) + padding - 10).to_bytes(2, "little")
    return header[:8] + length + header[10:-1] + b" " * padding + b"\n"


def _read_header(raw: bytes, version: tuple[int, int], offset_bytes: int) -> NpyHeader:
    try:
        text = raw.decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError as error:
        raise NpyError("header", "bytes that are not UTF-8", "UTF-8 in version 3.0") from error
    entries = _read_entries(text)
    dtype = _read_descr(entries["descr"])
    if entries["fortran_order"] not in ("True", "False"):
        raise NpyError("fortran_order", _shorten(entries["fortran_order"]), "True or False")
    *stack, rows, columns = _read_shape(entries["shape"])
    fortran_order = entries["fortran_order"] == "True"
    return NpyHeader(rows, columns, dtype, fortran_order, offset_bytes, *stack)


def _read_entries(text: str) -> dict[str, str]:
    """The text of each value of the header's dictionary."""
    malformed = NpyError(
        "header", _shorten(text), "a dictionary of descr, fortran_order and shape, and a newline"
    )
    body = text.strip(" \n")
    if not (body.startswith("{") and body.endswith("}")):
        raise malformed
    entries: dict[str, str] = {}
    position = 1
    while match := _ENTRY.match(body, position):
        key = match["key"].lstrip("u")[1:-1]
        if key in entries:
            raise NpyError("header", f"{_shorten(key)} twice", "each key once")
        entries[key] = match["value"]
        position = match.end()
    if body[position:].strip(" \t\n") != "}":
        raise malformed
    if sorted(entries) != list(_KEYS):
        raise NpyError("header", _shorten(", ".join(entries)), f"exactly the keys {list(_KEYS)}")
    return entries


def _read_descr(text: str) -> str:
    text = text.lstrip("u")
    descr = text[1:-1] if text[0] in "'\"" else text
    if descr in DTYPES:
        return DTYPES[descr]
    kind = "structured elements"
    if _NAME.fullmatch(descr):  # other names of NumPy's, such as f4
        try:
            dtype = np.dtype(descr)
        except Exception:  # also warnings that a process has made errors
            kind = "a type that NumPy does not know"
        else:
            if dtype.name in ITEM_BYTES and dtype.isnative:
                return dtype.name
            kind = dtype.name if dtype.isnative else f"big-endian {dtype.name}"
            kind = "Python objects, which need pickle" if dtype.hasobject else kind
    limit = f"one of {', '.join(DTYPES)}; this is {kind}"
    raise DtypeRefused("descr", _shorten(descr), limit)


def _read_shape(text: str) -> tuple[int, ...]:
    # "(5)" is a number in Python, "(5,)" a tuple.
    if not _TUPLE.fullmatch(text) or ("," not in text and text.strip("() \t\n")):
        raise NpyError("shape", _shorten(text), "a tuple of sizes")
    sizes = [size.strip(" \t\nL") for size in text.strip("()").split(",") if size.strip()]
    if len(sizes) not in (2, 3):
        limit = f"of 2 dimensions, or of 3 for a stack; it has {len(sizes)}"
        raise NpyError("shape", _shorten(text), limit)
    if any(len(size) > _MAX_SIZE_DIGITS or int(size) < 0 for size in sizes):
        raise NpyError("shape", _shorten(text), f"sizes from 0 to {MAX_SIZE}")
    shape = tuple(map(int, sizes))
    if len(shape) > 2 and shape[0] * shape[1] > MAX_SIZE:
        raise NpyError("shape", _shorten(text), f"at most {MAX_SIZE} rows of all matrices together")
    return shape


def _name_format(prefix: bytes) -> str:
    """The format of a file that does not begin as a .npy file."""
    known = (name for begin, name in _OTHER_FILES.items() if prefix.startswith(begin))
    plain = all(32 <= byte < 127 or byte in b"\t\r\n" for byte in prefix[:64])
    return next(known, "text" if plain else "unknown")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
