"""Downloads of .npy files into an array or a file; each goes on after a lost connection."""

import hashlib
import re
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import DownloadCorrupted, ServiceUnreachable
from ..wire.answer import PIECE_BYTES, Answer
from ..wire.calls import Calls
from ..wire.interruption import find_interruption
from ..wire.request import Request
from .bodies import format_digest
from .npy import MEDIA_TYPE, receive_head, view_bytes
from .operands import check_out, check_writable
from .partial_file import write_partial

FRUITLESS_TRIES: Final = 3
"""After how many lost connections in a row without a byte a download fails; chosen."""

_PAUSE_SECONDS: Final = 0.1
_DIGEST: Final = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]*):")

Arrival = Callable[[int, int | None], None]
"""Receives the bytes that have arrived and the bytes in all (None if the service does not say)."""


class FilePlace:
    """A file that receives a download, checked by the digest that the service announces.

    Args:
        file: An empty file, open for writing.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer = memoryview(bytearray(PIECE_BYTES))
        self._digest = hashlib.sha256()
        self._expected: bytes | None = None

    def begin(self, answer: Answer) -> None:
        """Empty the file: `answer` has its bytes from the first."""
        self._file.seek(0)
        self._file.truncate()
        self._digest = hashlib.sha256()
        self._expected = _find_digest(answer)

    def receive(self, answer: Answer) -> int:
        """Receive some bytes and write them; returns how many, 0 at their end.

        Raises:
            OSError: The file cannot be written.
        """
        count = answer.receive_into(self._buffer)
        self._file.write(self._buffer[:count])
        if self._expected is not None:
            self._digest.update(self._buffer[:count])
        return count

    def finish(self) -> None:
        """Compare the digests.

        Raises:
            DownloadCorrupted: The bytes are not those that the service announced.
        """
        if self._expected is None or self._digest.digest() == self._expected:
            return
        found, announced = format_digest(self._digest.digest()), format_digest(self._expected)
        raise DownloadCorrupted(f"its digest is {found}, announced: {announced}")


class ArrayPlace:
    """An array of the file's shape and element type, which receives its elements.

    Args:
        out: An array of that shape and type, used if it can hold the elements as they are sent;
            None for a new one.

    Attributes:
        array: The array, once the head has arrived.
    """

    def __init__(self, out: NDArray[Any] | None) -> None:
        self._out = out
        self.array: NDArray[Any] = np.empty(0)
        self._rest: memoryview | None = None

    def begin(self, _answer: Answer) -> None:
        """Expect a head again."""
        self._rest = None

    def receive(self, answer: Answer) -> int:
        """Receive the head, then some of the elements; returns how many bytes, 0 at their end.

        Raises:
            DownloadCorrupted: It is no head.
            ValueError: It announces another shape or element type than that of `out`.
        """
        if self._rest is None:
            try:
                head = receive_head(answer)
            except ValueError as error:
                raise DownloadCorrupted(f"the answer is no .npy file: {error}") from error
            if self._out is not None:
                check_out(self._out, head.shape, head.dtype)
            fits = self._out is not None and head.fits(self._out)
            self.array = self._out if self._out is not None and fits else head.make_array()
            self._rest = view_bytes(self.array) if self.array.size else memoryview(b"")
            return head.size_bytes
        count = answer.receive_into(self._rest) if self._rest else 0
        self._rest = self._rest[count:]
        return count

    def finish(self) -> None:
        """Make sure that no element is missing.

        Raises:
            DownloadCorrupted: One is.
        """
        if self._rest is None or self._rest:
            raise DownloadCorrupted(f"{len(self._rest or b'')} bytes are missing at its end")


class Download:
    """One download, which may take several connections.

    Args:
        place: Where the bytes go.
        on_progress: Receives the progress.
    """

    def __init__(self, place: FilePlace | ArrayPlace, on_progress: Arrival | None = None) -> None:
        self._place = place
        self._on_progress = on_progress
        self._received_bytes = 0
        self._total_bytes: int | None = None
        self._etag: str | None = None

    def fetch(self, calls: Calls, path: str) -> int:
        """Fetch a .npy file.

        Args:
            calls: The calls to the service.
            path: The route that sends it.

        Returns:
            Length of the file in bytes.

        Raises:
            DownloadCorrupted: The bytes are not those that were announced.
            ServiceUnreachable: `FRUITLESS_TRIES` connections in a row broke without a byte.
        """
        fruitless = 0
        while True:
            before = self._received_bytes
            try:
                calls.receive(Request("GET", path, headers=self._headers()), self.receive)
            except ServiceUnreachable:
                fruitless = 0 if self._received_bytes > before else fruitless + 1
                if fruitless == FRUITLESS_TRIES:
                    raise
            else:
                self.finish()
                return self._received_bytes
            find_interruption().sleep(_PAUSE_SECONDS * fruitless)

    def receive(self, answer: Answer) -> None:
        """Receive an answer: the bytes that follow (206), or the file from its start."""
        if answer.status != 206:
            self._received_bytes = 0
            self._total_bytes = answer.length
            self._etag = answer.headers.get("etag")
            self._place.begin(answer)
        while count := self._place.receive(answer):
            self._received_bytes += count
            if self._on_progress is not None:
                self._on_progress(self._received_bytes, self._total_bytes)

    def finish(self) -> None:
        """Make sure that length and content are those that the service announced.

        Raises:
            DownloadCorrupted: They are not.
        """
        if self._total_bytes not in (None, self._received_bytes):
            raise DownloadCorrupted(
                f"{self._received_bytes} bytes have arrived of {self._total_bytes}"
            )
        self._place.finish()

    def _headers(self) -> dict[str, str]:
        """Headers that ask for the missing bytes, if the content has not changed since."""
        plain = {"Accept": MEDIA_TYPE, "Accept-Encoding": "identity"}
        if self._received_bytes == 0 or self._etag is None:
            return plain
        return {**plain, "Range": f"bytes={self._received_bytes}-", "If-Range": self._etag}


def _find_digest(answer: Answer) -> bytes | None:
    """The SHA-256 of the whole file, if the answer announces it (RFC 9530).

    Raises:
        DownloadCorrupted: It cannot be read.
    """
    field = answer.headers.get("repr-digest") or answer.headers.get("content-digest", "")
    found = _DIGEST.search(field)
    if found is None:
        return None
    try:
        return b64decode(found[1], validate=True)
    except ValueError as error:
        raise DownloadCorrupted(f"its digest cannot be read: {field!r}") from error


def receive_array(calls: Calls, path: str, out: NDArray[Any] | None) -> NDArray[Any]:
    """A .npy file of the service as an array: `out` if that is given.

    Raises:
        ValueError: `out` is no array, has another shape or element type, or is read-only; no
            element is received then.
    """
    if out is not None:
        check_writable(out)
    place = ArrayPlace(out)
    Download(place).fetch(calls, path)
    if out is None:
        return place.array
    if out is not place.array:
        np.copyto(out, place.array)
    return out


def download_file(calls: Calls, path: str, target: Path, on_progress: Arrival | None = None) -> int:
    """Write a .npy file of the service to `target`, which appears once complete.

    Returns:
        Length of the file in bytes.
    """
    with write_partial(target) as file:
        return Download(FilePlace(file), on_progress).fetch(calls, path)
