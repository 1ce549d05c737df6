"""The calls to a service: each has a connection for itself, and may be repeated.

Problems become errors.
"""

import contextlib
import json
import os
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

from ..errors import (
    ClientError,
    NotFound,
    ServiceBusy,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnreachable,
    Unauthorized,
)
from .address import Address, is_stale
from .connection import UNDO_SECONDS, Answer, Body, Connection, Request
from .interruption import Interrupted, find_interruption

T = TypeVar("T")

LONGEST_PAUSE_SECONDS: Final = 5.0
"""If the service asks for a longer pause, the request is not repeated: the caller should know."""

_FIRST_PAUSE_SECONDS: Final = 0.1
"""Longest pause before the second try; it doubles with every try. Chosen."""

_REFUSALS: Final = {
    **dict.fromkeys((401, 403), Unauthorized),
    404: NotFound,
    **dict.fromkeys((429, 503), ServiceBusy),
}
"""The errors of statuses; all others are a `ServiceRefused`."""

_AWAY: Final = {502: ServiceUnreachable, 504: ServiceTimeout}
"""What a proxy says of a service that does not answer it."""


@dataclass(slots=True, eq=False)
class Calls:
    """HTTP/1.1 calls to one service; may be used by several threads.

    Attributes:
        address: Where the service is.
        headers: Sent with every request.
        timeout_seconds: The longest silence of the service.
        retries: How often a request is repeated at most.
    """

    address: Address
    headers: Mapping[str, str]
    timeout_seconds: float
    retries: int
    _idle: deque[Connection] = field(default_factory=deque)
    _process: int = field(default_factory=os.getpid)

    def within(self, seconds: float) -> Self:
        """The same calls, during which the service may be silent for this long at most."""
        return replace(self, timeout_seconds=min(seconds, self.timeout_seconds))

    def receive(self, request: Request, read: Callable[[Answer], T]) -> T:
        """Send a request and read its answer; both are repeated if nothing can be done twice.

        After a lost connection only a repeatable request is repeated. After 503 with Retry-After
        every request is, as the service has done nothing. After a timeout none is: it has waited
        long enough.

        Raises:
            ServiceUnreachable: There was no answer.
            ServiceRefused: The answer is a problem.
        """
        made = 0
        while True:
            try:
                return self._exchange(request, read)
            except (ServiceUnreachable, ServiceBusy) as error:
                pause = _find_pause(error, made, request.repeatable)
                if made == self.retries or pause is None:
                    raise
            made += 1
            find_interruption().sleep(pause)

    def ask(self, request: Request) -> Any:
        """The JSON of the answer to a request; raises what `receive` raises."""
        content = self.receive(request, Answer.receive)
        try:
            return json.loads(content)
        except ValueError as error:
            shown = content[:60].decode(errors="replace")
            reason = f"its answer is not JSON but {shown!r}"
            raise ServiceUnreachable(self.address.url, reason) from error

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """The JSON under a path, which is always an object."""
        document: dict[str, Any] = self.ask(Request("GET", path, query, repeatable=True))
        return document

    def list_pages(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """The pages of a list, asked for one by one."""
        page = self.get(path, **query)
        yield page
        while page["next_cursor"] is not None:
            page = self.get(path, cursor=page["next_cursor"], **query)
            yield page

    def remove(self, path: str) -> None:
        """Delete what is under a path; raises `NotFound` if there was nothing."""
        try:
            self.receive(Request("DELETE", path), Answer.receive)
        except ServiceTimeout:
            raise
        except ServiceUnreachable:
            with contextlib.suppress(NotFound):  # the request whose answer was lost did it
                self.receive(Request("DELETE", path, repeatable=True), Answer.receive)

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    def _exchange(self, request: Request, read: Callable[[Answer], T]) -> T:
        """Send a request once and read its answer; if that is interrupted, it is undone."""
        interruption = find_interruption()
        connection = self._take_idle() or Connection(self.address)
        interrupted = False
        try:
            answer = connection.ask(request, self._write_head(request), self.timeout_seconds)
            self._check(answer)
            found = read(answer)
            interruption.check()
        except BaseException as error:  # Ctrl-C, an interruption, or an error of the caller's
            interrupted = interruption.take() or isinstance(error, Interrupted)
            if interrupted or not isinstance(error, ServiceUnreachable):
                connection.undo(request, min(UNDO_SECONDS, self.timeout_seconds))
            if interrupted:
                raise Interrupted from error
            raise
        else:
            return found
        finally:
            # What has interrupted the call may shut the connection down later.
            if interruption.release() and connection.is_free and not interrupted:
                self._idle.append(connection)
            else:
                connection.close()

    def _take_idle(self) -> Connection | None:
        """An idle connection of an earlier request; never one of a parent process."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self.close()
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was quicker
                connection = self._idle.pop()
                if not is_stale(connection.sock):
                    return connection
                connection.close()
        return None

    def _write_head(self, request: Request) -> bytes:
        query = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in request.query.items()
            if value is not None
        }
        target = self.address.prefix + quote(request.path)
        if query:
            target += f"?{urlencode(query, doseq=True)}"
        headers = {**self.headers, **request.headers}
        if request.body is not None:
            headers["Content-Length"] = str(request.body.size_bytes)
            headers["Content-Type"] = request.body.media_type
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{request.method} {target} HTTP/1.1\r\n{fields}\r\n".encode()

    def _check(self, answer: Answer) -> None:
        """Raise the problem that an answer reports, if it reports one."""
        if 200 <= answer.status < 300:
            return
        content = answer.receive()
        media_type = answer.headers.get("content-type", "")
        is_own = media_type.startswith("application/problem+json")  # proxies have no such documents
        if answer.status in _AWAY and not is_own:
            raise _AWAY[answer.status](self.address.url, f"a proxy answers {answer.status}")
        try:
            problem = json.loads(content)
        except ValueError:
            problem = None
        if not isinstance(problem, dict):
            problem = {"detail": _quote(content)}
        after = answer.headers.get("retry-after", "")
        kind = _REFUSALS.get(answer.status, ServiceRefused)
        raise kind(answer.status, problem, float(after) if after.isdecimal() else None)


def make_json_body(document: object) -> Body:
    """A JSON document as a body."""
    content = json.dumps(document, allow_nan=False).encode()
    return Body(len(content), lambda: iter([content]), "application/json")


def _find_pause(error: ClientError, made: int, repeatable: bool) -> float | None:
    """Seconds until the next try, of which `made` were repetitions; None if there is none."""
    longest = min(_FIRST_PAUSE_SECONDS * 2.0**made, LONGEST_PAUSE_SECONDS)
    pause = longest * random.random()  # noqa: S311 # so that callers do not come back together
    if isinstance(error, ServiceBusy):
        asked = error.retry_after_seconds
        if error.status != 503 or asked is None or asked > LONGEST_PAUSE_SECONDS:
            return None
        return asked + pause
    return pause if repeatable and not isinstance(error, ServiceTimeout) else None


def _quote(content: bytes) -> str:
    """The beginning of an answer that no service of wavetrim gives; a page is not shown."""
    text = content[:200].decode(errors="replace")
    is_page = text.lstrip().startswith("<")
    return "the answer is a web page: of a proxy, or of another program" if is_page else text
