"""Limits of connections, and refusals before the application sees a request."""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from wavetrim.service.api.problems import describe_error
from wavetrim.service.descriptors import Descriptors

if TYPE_CHECKING:
    from wavetrim.service.api.wire.connection import WireProtocol

logger = logging.getLogger(__name__)

HEAD_SECONDS: Final = 10.0
"""How long a head may take, from its first byte or, on a new connection, from the start; chosen."""

CLOSED: Final = "closed"
"""In place of a status if no answer could be given."""

LINE_SECONDS: Final = 10.0
"""Least time between two lines in the log, as a refused client may come again at once; chosen."""


class WireLimits:
    """Limits of a server's connections; counts their refusals, and logs some of them.

    Args:
        descriptors: How many connections there may be.
        count: Called with the status of each refusal, or `CLOSED`.
    """

    def __init__(self, descriptors: Descriptors, count: Callable[[str], None]) -> None:
        self.descriptors = descriptors
        self._count = count
        self._next_line_at = 0.0
        self._untold = 0

    def note_refusal(self, status: str, reason: object) -> None:
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


def refuse(connection: "WireProtocol", error: Exception, *, waits: bool = True) -> None:
    """Answers in place of the application, and ends the connection.

    Earlier requests are answered first: a client must not mistake the refusal for the answer to one
    of them.

    Args:
        connection: The connection.
        error: The refusal.
        waits: Whether a client that still sends has time to see the answer.
    """
    connection.refusing, connection.head_due = True, None
    if connection.headers is not None and connection.in_head:
        connection.headers.clear()
    if connection.transport.is_closing():
        return
    unanswered = connection.cycle is not None and not connection.cycle.response_complete
    if unanswered and not _end_request(connection, error):
        return
    status, answer = _format(error)
    connection.limits.note_refusal(str(status), error)
    connection.transport.write(answer)
    if waits:
        connection.linger(None)
    else:
        connection.transport.close()


def _end_request(connection: "WireProtocol", error: Exception) -> bool:
    """Has the connection end with the last request; returns whether to refuse that at once."""
    cycle, status = connection.cycle, CLOSED
    if not cycle.more_body:
        cycle.keep_alive = False
    elif connection.pipeline:  # it waits for earlier requests
        refusal = describe_error(error)
        status, cycle.waiting_for_100_continue = str(refusal.status_code), False
        connection.pipeline[0] = (cycle, cast("Any", refusal))
    elif cycle.response_started:
        connection.transport.abort()
    else:
        # The reader of the body is told that the client has left, and asks for no more.
        cycle.disconnected, cycle.waiting_for_100_continue = True, False
        cycle.message_event.set()
        return True
    connection.limits.note_refusal(status, error)
    return False


def _format(error: Exception) -> tuple[int, bytes]:
    """A whole answer: the problem document of an error, and the header that ends the connection.

    Returns:
        The answer's status and its bytes.
    """
    answer = describe_error(error)
    answer.headers["connection"] = "close"
    answer.headers["x-content-type-options"] = "nosniff"
    fields = b"".join(b"%b: %b\r\n" % field for field in answer.raw_headers)
    head = STATUS_LINE[answer.status_code]
    return answer.status_code, b"%b%b\r\n%b" % (head, fields, bytes(answer.body))
