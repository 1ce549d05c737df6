"""Bodies of requests: arrays as .npy files, files, JSON."""

import hashlib
import json
import stat
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ..wire.request import Body
from .npy import format_head, view_bytes

PIECE_BYTES: Final = 2**20
"""Bodies are read in pieces of about this size, so that a caller sees progress; chosen."""


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A JSON document.

    Attributes:
        content: The document in UTF-8.
    """

    waits: ClassVar[bool] = False
    content: bytes

    @classmethod
    def write(cls, document: object) -> "JsonBody":
        """The body of a document."""
        return cls(json.dumps(document, allow_nan=False).encode())

    @property
    def size_bytes(self) -> int:
        """Length of the body."""
        return len(self.content)

    def read_pieces(self) -> Iterator[bytes]:
        """The body."""
        yield self.content


@dataclass(frozen=True, slots=True)
class ArrayBody:
    """A matrix as a .npy file.

    A contiguous matrix is sent from where it lies, by rows or by columns. Any other is copied, a
    piece at a time.

    Attributes:
        array: Two-dimensional, of either byte order.
    """

    waits: ClassVar[bool] = False
    array: NDArray[Any]

    @property
    def head(self) -> bytes:
        """The head of the .npy file."""
        dtype = self.array.dtype.newbyteorder("<")
        rows, columns = self.array.shape
        return format_head(dtype, (rows, columns), self._fortran_order)

    @property
    def size_bytes(self) -> int:
        """Length of the body."""
        return len(self.head) + self.array.nbytes

    @property
    def _fortran_order(self) -> bool:
        flags = self.array.flags
        return flags.f_contiguous and not flags.c_contiguous

    def read_pieces(self) -> Iterator[bytes | memoryview]:
        """The head, then the elements in the order in which they lie."""
        yield self.head
        lines = self.array.T if self._fortran_order else self.array
        native = lines.dtype.newbyteorder("<")
        if lines.size == 0:
            return
        if lines.flags.c_contiguous and lines.dtype == native:
            view = view_bytes(lines)
            for start in range(0, len(view), PIECE_BYTES):
                yield view[start : start + PIECE_BYTES]
            return
        step = max(1, PIECE_BYTES // (lines.shape[1] * native.itemsize))
        for start in range(0, lines.shape[0], step):
            yield view_bytes(np.ascontiguousarray(lines[start : start + step], native))


@dataclass(frozen=True, slots=True)
class FileBody:
    """A file, sent as it is.

    Attributes:
        path: The file.
        size_bytes: Its length.
    """

    waits: ClassVar[bool] = True
    path: Path
    size_bytes: int

    @classmethod
    def find(cls, path: Path) -> "FileBody":
        """The body of a file.

        Raises:
            OSError: There is no such file.
            ValueError: It is none whose length is known, such as a pipe.
        """
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            limit = "a regular file, whose length is known"
            raise ValueError(f"{path} is {describe_place(path)!r}; it must be {limit}")
        return cls(path, found.st_size)

    def read_pieces(self) -> Iterator[bytes]:
        """The file's bytes, as many as it had when the body was made.

        Raises:
            OSError: It cannot be read, or is shorter than it was.
        """
        left = self.size_bytes
        with self.path.open("rb", buffering=0) as file:
            while left:
                piece = file.read(min(left, PIECE_BYTES))
                if not piece:
                    raise OSError(f"{self.path} has become {left} bytes shorter")
                left -= len(piece)
                yield piece


def describe_place(path: Path) -> str:
    """What lies at a path that is no regular file."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(path.stat().st_mode), "a device")


@dataclass(frozen=True, slots=True)
class JoinedBody:
    """Several bodies, one directly after the other.

    Attributes:
        parts: The bodies.
    """

    parts: Sequence[Body]

    @property
    def waits(self) -> bool:
        """Whether one of them is a file."""
        return any(part.waits for part in self.parts)

    @property
    def size_bytes(self) -> int:
        """Length of all."""
        return sum(part.size_bytes for part in self.parts)

    def read_pieces(self) -> Iterator[bytes | memoryview]:
        """The pieces of all."""
        for part in self.parts:
            yield from part.read_pieces()


def digest_body(body: Body) -> str:
    """The Content-Digest field of a body (RFC 9530, sha-256); reads it once."""
    digest = hashlib.sha256()
    for piece in body.read_pieces():
        digest.update(piece)
    return format_digest(digest.digest())


def format_digest(digest: bytes) -> str:
    """A SHA-256, formatted for a digest field."""
    return f"sha-256=:{b64encode(digest).decode()}:"
