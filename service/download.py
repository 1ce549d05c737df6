"""A download into a file: resumed where the connection broke, checked, then put in its place."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from wavetrim.service.api.wire.digests import format_digest, parse_digest
from wavetrim.service.client_errors import DownloadCorrupted
from wavetrim.service.errors import DigestMalformed
from wavetrim.service.partial_file import write_partial
from wavetrim.service.upload import CHUNK_BYTES

if TYPE_CHECKING:
    import httpx

Progress = Callable[[int, int | None], None]
"""Receives the bytes that have arrived, and of how many (None where the service does not say)."""

FRUITLESS_TRIES: Final = 3
"""So many connections in a row may break without a byte before the download is given up."""


class Download:
    """The state of one download between its connections.

    Args:
        file: Empty file for the bytes.
        progress: Told of what has arrived.
    """

    def __init__(self, file: BinaryIO, progress: Progress | None) -> None:
        self._file = file
        self._progress = progress
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self.received_bytes = 0
        self._total_bytes: int | None = None
        self._etag: str | None = None
        self._digest = hashlib.sha256()
        self._expected_digest: bytes | None = None

    def headers(self) -> dict[str, str]:
        """Headers that ask for what is still missing, of the same content only."""
        identity = {"Accept-Encoding": "identity"}
        if self.received_bytes == 0 or self._etag is None:
            return identity
        return {**identity, "Range": f"bytes={self.received_bytes}-", "If-Range": self._etag}

    def receive(self, response: "httpx.Response") -> None:
        """Write one response's bytes behind those that are there, or anew if it begins anew.

        Raises:
            httpx.TransportError: The connection broke; what has arrived is kept.
        """
        if response.status_code != 206:
            self._begin()
            length = response.headers.get("Content-Length")
            self._total_bytes = int(length) if length else None
            self._etag = response.headers.get("ETag")
            self._expected_digest = _find_digest(response)
        for chunk in response.iter_raw(CHUNK_BYTES):
            self._file.write(chunk)
            self._digest.update(chunk)
            self.received_bytes += len(chunk)
            if self._progress is not None:
                self._progress(self.received_bytes, self._total_bytes)

    def check(self) -> None:
        """Compare what has arrived with what the service said of it.

        Raises:
            DownloadCorrupted: Length or digest differ.
        """
        if self._total_bytes not in (None, self.received_bytes):
            raise DownloadCorrupted(
                f"{self.received_bytes} bytes have arrived of {self._total_bytes}"
            )
        found = self._digest.digest()
        if self._expected_digest not in (None, found):
            announced = format_digest(self._expected_digest)
            raise DownloadCorrupted(f"its digest is {format_digest(found)}, announced: {announced}")


def receive_file(
    open_stream: Callable[[dict[str, str]], "httpx.Response"], path: Path, progress: Progress | None
) -> int:
    """Download into `path`, which appears when it is complete and checked.

    Args:
        open_stream: Sends the request with these headers added; a streamed response.
        path: The file to be written; one that is there is replaced at the end.
        progress: Told of what has arrived.

    Returns:
        Bytes of the file.

    Raises:
        DownloadCorrupted: The bytes are not those that were announced.
        httpx.TransportError: The connection broke again and again.
        OSError: The file cannot be written.
    """
    import httpx

    with write_partial(path) as file:
        download = Download(file, progress)
        fruitless = 0
        while True:
            before = download.received_bytes
            response = open_stream(download.headers())
            try:
                download.receive(response)
                break
            except httpx.TransportError:
                fruitless = 0 if download.received_bytes > before else fruitless + 1
                if fruitless == FRUITLESS_TRIES:
                    raise
            finally:
                response.close()
        download.check()
    return download.received_bytes


def _find_digest(response: "httpx.Response") -> bytes | None:
    """The SHA-256 of the whole file, where the response announces it (RFC 9530)."""
    field = response.headers.get("Repr-Digest") or response.headers.get("Content-Digest", "")
    try:
        return parse_digest(field)
    except DigestMalformed as error:
        raise DownloadCorrupted(f"its digest cannot be read: {error}") from error
