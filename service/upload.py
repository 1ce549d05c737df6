"""The body of an upload: a .npy file, or an array as the .npy file that it would be."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from wavetrim.service.api.wire.digests import format_digest

CHUNK_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class UploadBody:
    """Bytes to be sent, of a known length, read piece by piece as often as they are needed.

    Attributes:
        size_bytes: Length of the whole body.
        read_chunks: Begins a new reading of the body.
    """

    size_bytes: int
    read_chunks: Callable[[], Iterator[bytes]]

    def digest(self) -> str:
        """The Content-Digest header of the body (RFC 9530, sha-256); reads it once."""
        digest = hashlib.sha256()
        for chunk in self.read_chunks():
            digest.update(chunk)
        return format_digest(digest.digest())


def describe_file(path: Path) -> UploadBody:
    """The body that sends a .npy file as it is.

    Raises:
        OSError: The file cannot be read.
    """

    def read_chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    return UploadBody(path.stat().st_size, read_chunks)


def describe_array(array: NDArray[Any]) -> UploadBody:
    """The body that sends a two-dimensional array of any strides, a few rows at a time.

    Raises:
        ValueError: The array does not have two dimensions.
    """
    import numpy as np

    from wavetrim.service.storage.npy import format_header

    if array.ndim != 2:
        raise ValueError(f"array has {array.ndim} dimensions; it must have 2")
    fortran_order = array.flags.f_contiguous and not array.flags.c_contiguous
    native = array.dtype.newbyteorder("=")
    rows, columns = array.shape
    header = format_header(rows, columns, native.name, fortran_order=fortran_order)
    lines = array.T if fortran_order else array
    step = max(1, CHUNK_BYTES // max(1, lines.shape[1] * native.itemsize))

    def read_chunks() -> Iterator[bytes]:
        yield header
        for start in range(0, lines.shape[0], step):
            yield np.asarray(lines[start : start + step], native).tobytes()

    return UploadBody(len(header) + array.nbytes, read_chunks)
