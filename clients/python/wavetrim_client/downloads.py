"""Downloads of .npy files: into an array, or into a file, where a broken one goes on."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from .arrays import check_out, check_writable
from .errors import DownloadCorrupted, ServiceUnreachable
from .npy import format_digest, parse_head, view_bytes
from .wire.calls import Calls
from .wire.connection import NPY, PIECE_BYTES, Answer, Request

HEADERS: Final = {"Accept": NPY}

_LEAST_HEAD_BYTES: Final = 12
_MOST_HEAD_BYTES: Final = 10_012

Arrival = Callable[[int, int | None], None]
"""Receives the bytes that have arrived and the bytes in all (None if the service does not say)."""


def receive_array(answer: Answer, out: NDArray[Any] | None) -> NDArray[Any]:
    """The array of a .npy file.

    Args:
        answer: The answer that has it.
        out: An array of its shape and type, which is filled if its elements lie as they are sent.

    Returns:
        `out` if that was filled, else a new array.

    Raises:
        DownloadCorrupted: It is no .npy file, or has too few or too many bytes.
        ValueError: It has another shape or element type than `out`.
    """
    shape, by_columns, dtype = _receive_head(answer)
    array = out
    if out is not None:
        check_out(out, shape, dtype)
        fits = out.flags.f_contiguous if by_columns else out.flags.c_contiguous
        array = out if fits else None
    if array is None:
        array = np.empty(shape, dtype, order="F" if by_columns else "C")
    rest = view_bytes(array) if array.size else memoryview(b"")
    while rest and (count := answer.receive_into(rest)):
        rest = rest[count:]
    if rest:
        raise DownloadCorrupted(f"{len(rest)} bytes are missing at its end")
    if answer.receive_into(memoryview(bytearray(1))):
        raise DownloadCorrupted("more bytes have arrived than its head says")
    return array


def _receive_head(answer: Answer) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Receive a head, and none of the elements after it."""
    try:
        head = _receive_exactly(answer, _LEAST_HEAD_BYTES)
        begin = 10 if head[6:7] == b"\1" else 12
        missing_bytes = begin + int.from_bytes(head[8:begin], "little") - len(head)
        return parse_head(head + _receive_exactly(answer, missing_bytes))
    except ValueError as error:
        raise DownloadCorrupted(f"the answer is no .npy file: {error}") from error


def _receive_exactly(answer: Answer, count: int) -> bytes:
    if count > _MOST_HEAD_BYTES:
        raise ValueError(f"its head has {count} bytes, too many for a .npy file's")
    head = bytearray(max(count, 0))
    done = 0
    while done < count:
        received = answer.receive_into(memoryview(head)[done:])
        if received == 0:
            raise ValueError(f"it ends after {done} of {count} bytes")
        done += received
    return bytes(head)


def fetch_array(calls: Calls, path: str, out: NDArray[Any] | None) -> NDArray[Any]:
    """A .npy file of the service as an array: `out` if that is given.

    Raises:
        ValueError: `out` is no array, has another shape or element type, or is read-only; no
            element is received then.
    """
    if out is not None:
        check_writable(out)
    request = Request("GET", path, headers=HEADERS, repeatable=True)
    array = calls.receive(request, lambda answer: receive_array(answer, out))
    if out is None or array is out:
        return array
    np.copyto(out, array)
    return out


def fetch_file(calls: Calls, path: str, target: Path, on_progress: Arrival | None = None) -> int:
    """Write a .npy file of the service to `target`, which appears once complete.

    A broken download goes on where it broke, as long as each try brings some bytes.

    Returns:
        Length of the file in bytes.

    Raises:
        DownloadCorrupted: The bytes are not those that were announced.
        ServiceUnreachable: The connection broke once more, without a byte.
        OSError: The file cannot be written.
    """
    with write_partial(target) as file:
        download = _Download(file, on_progress)
        request = Request("GET", path, headers=download.headers, repeatable=True)
        while True:
            before = download.received_bytes
            try:
                calls.receive(request, download.receive)
            except ServiceUnreachable:
                if download.received_bytes == before:
                    raise
            else:
                download.check()
                return download.received_bytes


class _Download:
    """A download into a file, over as many connections as it takes.

    Attributes:
        headers: Ask for the bytes that are missing, if the content has not changed since.
        received_bytes: How many are in the file.
    """

    def __init__(self, file: BinaryIO, on_progress: Arrival | None) -> None:
        self._file = file
        self._on_progress = on_progress
        self._total_bytes: int | None = None
        self._announced = ""
        self._digest = hashlib.sha256()
        self.headers = {**HEADERS}
        self.received_bytes = 0

    def receive(self, answer: Answer) -> None:
        """Write an answer: the bytes that follow (206), or the file from its start."""
        if answer.status != 206:
            self._begin(answer)
        buffer = memoryview(bytearray(PIECE_BYTES))
        while count := answer.receive_into(buffer):
            self._file.write(buffer[:count])
            if self._announced:
                self._digest.update(buffer[:count])
            self.received_bytes += count
            if "If-Range" in self.headers:
                self.headers["Range"] = f"bytes={self.received_bytes}-"
            if self._on_progress is not None:
                self._on_progress(self.received_bytes, self._total_bytes)

    def _begin(self, answer: Answer) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._total_bytes = answer.length
        headers = answer.headers
        self._announced = headers.get("repr-digest") or headers.get("content-digest") or ""
        self._digest = hashlib.sha256()
        self.received_bytes = 0
        self.headers.pop("Range", None)
        if "etag" in headers:
            self.headers["If-Range"] = headers["etag"]

    def check(self) -> None:
        """Make sure that length and content are those that the service announced.

        Raises:
            DownloadCorrupted: They are not.
        """
        if self._total_bytes not in (None, self.received_bytes):
            raise DownloadCorrupted(
                f"{self.received_bytes} bytes have arrived of {self._total_bytes}"
            )
        found = format_digest(self._digest.digest())
        if "sha-256=" in self._announced and found not in self._announced:
            raise DownloadCorrupted(f"its digest is {found}, announced: {self._announced}")


@contextlib.contextmanager
def write_partial(target: Path) -> Iterator[BinaryIO]:
    """Open a new file beside `target`, and rename it to `target` at the end of the block.

    A file of that name is replaced at once; whoever has it open or mapped keeps the old one. If
    the block ends with an exception (Ctrl-C included), the new file is removed and `target` stays
    as it was.

    Args:
        target: The file to be written; for a symbolic link, the file that it points to.

    Raises:
        OSError: The folder is not writable, or `target` is not an ordinary file.
    """
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is there and is not an ordinary file")
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    with part.open("x+b") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
