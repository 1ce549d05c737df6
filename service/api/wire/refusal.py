"""Refusals of a head or a connection, before the application sees them."""

import logging
import time
from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from wavetrim.service.api.problems import describe_error

logger = logging.getLogger(__name__)

CLOSED: Final = "closed"
"""In place of a status if no answer could be given."""

LINE_SECONDS: Final = 10.0
"""Least time between two lines in the log, as a refused client may come again at once; chosen."""


class Refusals:
    """Counts refusals, and logs some of them.

    Args:
        count: Called with the status of each refusal, or `CLOSED`.
    """

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._next_line_at = 0.0
        self._untold = 0

    def note(self, status: str, reason: object) -> None:
        """A connection was refused.

        Args:
            status: The answer's status, or `CLOSED`.
            reason: The reason, for the log.
        """
        self._count(status)
        now = time.monotonic()
        if now < self._next_line_at:
            self._untold += 1
            return
        more = f"; {self._untold} more before" if self._untold else ""
        logger.warning("refused before the application: %s, %s%s", status, reason, more)
        self._next_line_at, self._untold = now + LINE_SECONDS, 0


def format_refusal(error: Exception) -> tuple[int, bytes]:
    """A whole answer: the problem document of an error, and the header that ends the connection.

    Returns:
        The answer's status and its bytes.
    """
    answer = describe_error(error)
    answer.add_error()  # the path, perhaps of /v2, is not known
    answer.headers["connection"] = "close"
    answer.headers["x-content-type-options"] = "nosniff"
    fields = b"".join(b"%b: %b\r\n" % field for field in answer.raw_headers)
    head = STATUS_LINE[answer.status_code]
    return answer.status_code, b"%b%b\r\n%b" % (head, fields, bytes(answer.body))
