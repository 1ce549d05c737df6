"""Bodies of requests: arrays as .npy files, files, JSON."""

import hashlib
import json
import stat
from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..wire.answer import PIECE_BYTES
from ..wire.request import Body
from .npy import format_head, view_bytes


def make_json_body(document: object) -> Body:
    """A JSON document."""
    content = json.dumps(document, allow_nan=False).encode()
    return Body(len(content), lambda: iter([content]))


def make_array_body(array: NDArray[Any]) -> Body:
    """A matrix of either byte order as a .npy file.

    A contiguous matrix is sent from where it lies, by rows or by columns. Any other is copied, a
    piece at a time.
    """
    by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    native = array.dtype.newbyteorder("<")
    rows, columns = array.shape
    head = format_head(native, (rows, columns), by_columns)
    lines = array.T if by_columns else array
    return Body(len(head) + array.nbytes, lambda: chain([head], _read_lines(lines, native)))


def _read_lines(lines: NDArray[Any], native: np.dtype[Any]) -> Iterator[bytes | memoryview]:
    """The elements of an array row after row."""
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
    """The file's bytes, as many as it had when the body was made.

    Raises:
        OSError: It cannot be read, or is shorter than it was.
    """
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


def join_bodies(bodies: Sequence[Body]) -> Body:
    """Several bodies, one directly after the other."""
    size_bytes = sum(body.size_bytes for body in bodies)
    return Body(size_bytes, lambda: chain.from_iterable(body.read_pieces() for body in bodies))


def digest_body(body: Body) -> str:
    """The Content-Digest field of a body (RFC 9530, sha-256); reads it once."""
    digest = hashlib.sha256()
    for piece in body.read_pieces():
        digest.update(piece)
    return format_digest(digest.digest())


def format_digest(digest: bytes) -> str:
    """A SHA-256, formatted for a digest field."""
    return f"sha-256=:{b64encode(digest).decode()}:"
