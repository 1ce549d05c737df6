"""The answer to a request, whose body goes directly into the caller's memory."""

import contextlib
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from typing import Final

from ..errors import ServiceTimeout, ServiceUnreachable

PIECE_BYTES: Final = 2**20
"""Bodies are read and written in pieces of about this size, so that a caller sees progress;
chosen."""

_MOST_BYTES: Final = 2**24
"""How much is received at once: if the connection breaks in between, so much is lost. Chosen."""


class Answer:
    """The answer to a request, whose body is still to be received.

    Args:
        response: Its head has been received.
        url: Address of the service.
        timeout_seconds: How long the service may be silent.

    Attributes:
        status: HTTP status.
        headers: By their names in lower case.
        length: Bytes of the body; None if the service does not say.
    """

    def __init__(self, response: HTTPResponse, url: str, timeout_seconds: float | None) -> None:
        self._response = response
        self._url = url
        self._timeout_seconds = timeout_seconds
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.getheaders()
        }
        self.length = response.length
        self._content: list[bytes] = []

    @property
    def is_reusable(self) -> bool:
        """Whether the connection can carry another request: the body has arrived completely."""
        return self._response.isclosed() and not self._response.will_close

    def close(self) -> None:
        """Receive no more."""
        self._response.close()

    def receive_into(self, view: memoryview) -> int:
        """Receive some of the body into memory; returns how many bytes, 0 at its end.

        Raises:
            ServiceUnreachable: The connection broke, or the service is silent.
        """
        with name_failures(self._url, self._timeout_seconds):
            count = self._response.readinto(view[:_MOST_BYTES])
        missing = self._response.length
        if count == 0 and missing:
            raise ServiceUnreachable(self._url, f"the answer ends {missing} bytes too early")
        return count

    def read(self) -> bytes:
        """All of the body. After an interruption it may be called again, and goes on.

        Raises:
            ServiceUnreachable: The connection broke, or the service is silent.
        """
        buffer = memoryview(bytearray(2**16))
        while count := self.receive_into(buffer):
            self._content.append(bytes(buffer[:count]))
        return b"".join(self._content)


@contextlib.contextmanager
def name_failures(url: str, timeout_seconds: float | None) -> Iterator[None]:
    """Raise failures of a connection as errors of the client.

    Args:
        url: Address of the service.
        timeout_seconds: How long the service may be silent.
    """
    try:
        yield
    except TimeoutError as error:
        raise ServiceTimeout(url, f"silent for {timeout_seconds:g} s") from error
    except OSError as error:
        raise ServiceUnreachable(url, error.strerror or error) from error
    except HTTPException as error:
        raise ServiceUnreachable(url, error or type(error).__name__) from error
