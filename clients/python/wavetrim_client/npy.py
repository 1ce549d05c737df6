"""The .npy format: its element types and its head; arrays and files as bodies of requests."""

import hashlib
import io
import stat
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .wire.connection import PIECE_BYTES, Body

try:
    import ml_dtypes
except ImportError:
    BFLOAT16: np.dtype[Any] | None = None
else:
    BFLOAT16 = np.dtype(ml_dtypes.bfloat16)  # from now on NumPy knows its name, too

DTYPES: Final = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""Names of the element types that the service multiplies."""

Progress = Callable[[int, int], None]
"""Receives the bytes sent, and the bytes in all."""


def read_dtype(descr: np.dtype[Any]) -> np.dtype[Any]:
    """The element type of a .npy file whose head says `descr`.

    The format has no name for bfloat16: `numpy.save` and the service write it as two raw bytes.
    Without ml_dtypes they stay raw bytes, as with `numpy.load`.
    """
    return BFLOAT16 if descr == np.dtype("V2") and BFLOAT16 is not None else descr


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Refuse an element type that the service does not multiply."""
    if dtype.name not in DTYPES:
        raise ValueError(f"dtype is {dtype.name}; it must be one of {', '.join(DTYPES)}")


@lru_cache(maxsize=256)
def parse_head(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape of a .npy file, whether its elements lie column after column, and their type.

    Raises:
        ValueError: It is not the head of a .npy file of numbers, of the version that is sent.
    """
    buffer = io.BytesIO(head)
    version = np.lib.format.read_magic(buffer)
    if version != (1, 0):
        raise ValueError(f"version is {version}; it must be (1, 0)")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(buffer)
    if dtype.hasobject:
        raise ValueError(f"dtype is {dtype}; it must be a number")
    return shape, fortran_order, read_dtype(dtype)


def view_bytes(array: NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array, as they lie in memory."""
    plain = array.view(np.ndarray)  # a `numpy.matrix` would stay two-dimensional
    return plain.reshape(-1, order="A").view(np.uint8).data


def make_array_body(array: NDArray[Any]) -> Body:
    """A matrix, or a stack, of either byte order as a .npy file.

    A contiguous one is sent from where it lies, by rows or by columns. Any other is copied, a piece
    at a time.
    """
    dtype = array.dtype.newbyteorder("<")
    described = np.lib.format.header_data_from_array_1_0(array)
    described["descr"] = np.lib.format.dtype_to_descr(dtype)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, described)

    def read() -> Iterator[bytes | memoryview]:
        pieces: Any = np.nditer(
            array,
            ["external_loop", "buffered", "zerosize_ok"],
            op_dtypes=[dtype],
            order="F" if described["fortran_order"] else "C",
            casting="equiv",
            buffersize=PIECE_BYTES // dtype.itemsize,
        )
        return chain([head.getvalue()], map(view_bytes, map(np.ascontiguousarray, pieces)))

    return Body(head.tell() + array.nbytes, read)


def make_file_body(path: Path) -> Body:
    """A file, sent as it is.

    Raises:
        OSError: There is no such file.
        ValueError: It is none whose length is known, such as a pipe.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        limit = "a regular file, whose length is known"
        raise ValueError(f"{path} is {describe_place(path)!r}; it must be {limit}")
    return Body(found.st_size, lambda: _read_file(path, found.st_size))


def _read_file(path: Path, size_bytes: int) -> Iterator[bytes]:
    """The file's bytes, as many as it had when the body was made."""
    left = size_bytes
    with path.open("rb", buffering=0) as file:
        while left:
            piece = file.read(min(left, PIECE_BYTES))
            if not piece:
                raise OSError(f"{path} has become {left} bytes shorter")
            left -= len(piece)
            yield piece


def describe_place(path: Path) -> str:
    """What lies at a path that is no regular file."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(path.stat().st_mode), "a device")


def tell_progress(body: Body, on_progress: Progress) -> Body:
    """The same body; the caller is told of each piece that was sent."""

    def read() -> Iterator[bytes | memoryview]:
        sent_bytes = 0
        for piece in body.read_pieces():
            yield piece
            sent_bytes += len(piece)
            on_progress(sent_bytes, body.size_bytes)

    return Body(body.size_bytes, read)


def digest_body(body: Body) -> str:
    """The Content-Digest field of a body (RFC 9530, sha-256); reads it once."""
    digest = hashlib.sha256()
    for piece in body.read_pieces():
        digest.update(piece)
    return format_digest(digest.digest())


def format_digest(digest: bytes) -> str:
    """A SHA-256, formatted for a digest field."""
    return f"sha-256=:{b64encode(digest).decode()}:"
