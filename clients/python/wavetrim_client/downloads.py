"""Downloads of .npy files: into an array, or into a file, where a broken one goes on."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .arrays import check_out, check_writable
from .errors import DownloadCorrupted, ServiceUnreachable
from .npy import format_digest, parse_head, view_bytes
from .wire.calls import Calls
from .wire.connection import NPY, PIECE_BYTES, Answer, Request

Arrival = Callable[[int, int | None], None]
"""Receives the bytes that have arrived and the bytes in all (None if the service does not say)."""


def receive_array(answer: Answer, out: NDArray[Any] | None) -> NDArray[Any]:
    """The array of a .npy file: `out`, if that is given, else a new one.

    Raises:
        DownloadCorrupted: It is no .npy file, or has too few or too many bytes.
        ValueError: It has another shape or element type than `out`.
    """
    try:
        head = _receive_exactly(answer, 10)
        length_bytes = int.from_bytes(head[8:], "little")
        shape, by_columns, dtype = parse_head(head + _receive_exactly(answer, length_bytes))
    except ValueError as error:
        raise DownloadCorrupted(f"the answer is no .npy file: {error}") from error
    if out is not None:
        check_out(out, shape, dtype)
    if out is not None and (out.flags.f_contiguous if by_columns else out.flags.c_contiguous):
        array = out
    else:
        array = np.empty(shape, dtype, order="F" if by_columns else "C")
    missing_bytes = _receive_all(answer, view_bytes(array))
    if missing_bytes:
        raise DownloadCorrupted(f"{missing_bytes} bytes are missing at its end")
    if answer.receive_into(memoryview(bytearray(1))):
        raise DownloadCorrupted("more bytes have arrived than its head says")
    if out is None or array is out:
        return array
    np.copyto(out, array)
    return out


def _receive_exactly(answer: Answer, count: int) -> bytes:
    received = bytearray(count)
    missing_bytes = _receive_all(answer, memoryview(received))
    if missing_bytes:
        raise ValueError(f"it ends after {count - missing_bytes} of {count} bytes")
    return bytes(received)


def _receive_all(answer: Answer, view: memoryview) -> int:
    """Receive bytes into memory; returns how many are missing at the end of the answer."""
    while view and (count := answer.receive_into(view)):
        view = view[count:]
    return len(view)


def fetch_array(calls: Calls, path: str, out: NDArray[Any] | None) -> NDArray[Any]:
    """A .npy file of the service as an array: `out` if that is given.

    Raises:
        ValueError: `out` cannot take it; no element is received then.
    """
    if out is not None:
        check_writable(out)
    request = Request("GET", path, headers={"Accept": NPY}, repeatable=True)
    return calls.receive(request, lambda answer: receive_array(answer, out))


def fetch_file(calls: Calls, path: str, target: Path, on_progress: Arrival | None) -> int:
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
            before = file.tell()
            try:
                calls.receive(request, download.receive)
                break
            except ServiceUnreachable:
                if file.tell() == before:
                    raise
        if download.total_bytes not in (None, file.tell()):  # its rest was another range
            raise DownloadCorrupted(f"{file.tell()} bytes have arrived of {download.total_bytes}")
        found = format_digest(download.digest.digest())
        if download.announced not in (None, found):
            raise DownloadCorrupted(f"its digest is {found}, announced: {download.announced}")
        return file.tell()


@dataclass(slots=True)
class _Download:
    """A download into a file, over as many connections as it takes.

    Attributes:
        file: The file, at the end of what has arrived.
        on_progress: Told of each piece.
        headers: Ask for the bytes that are missing, if the content has not changed since.
        total_bytes: Length of the content, if the service says it.
        announced: Its digest, if the service says it.
        digest: The digest of what has arrived, if one was announced.
    """

    file: BinaryIO
    on_progress: Arrival | None
    headers: dict[str, str] = field(default_factory=lambda: {"Accept": NPY})
    total_bytes: int | None = None
    announced: str | None = None
    digest: Any = None

    def receive(self, answer: Answer) -> None:
        """Write an answer: the bytes that follow (206), or the file from its start."""
        if answer.status != 206:
            self.file.seek(0)
            self.file.truncate()
            self.digest = hashlib.sha256()
            self.total_bytes, self.announced = answer.length, answer.headers["content-digest"]
            self.headers.pop("Range", None)
            if "etag" in answer.headers:
                self.headers["If-Range"] = answer.headers["etag"]
        buffer = memoryview(bytearray(PIECE_BYTES))
        while count := answer.receive_into(buffer):
            self.file.write(buffer[:count])
            if self.announced is not None:
                self.digest.update(buffer[:count])
            if "If-Range" in self.headers:
                self.headers["Range"] = f"bytes={self.file.tell()}-"
            if self.on_progress is not None:
                self.on_progress(self.file.tell(), self.total_bytes)


@contextlib.contextmanager
def write_partial(target: Path) -> Iterator[BinaryIO]:
    """Open a new file beside `target`, and rename it to `target` at the end of the block.

    A file of that name is replaced at once; whoever has it open or mapped keeps the old one. If
    the block ends with an exception (Ctrl-C included), the new file is removed and `target` stays
    as it was. A symbolic link stays; the file that it points to is replaced.

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
