"""Calls: requests that are repeated if necessary, and whose problems become errors."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from ..errors import (
    NotFound,
    ServiceBusy,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnreachable,
    read_refusal,
)
from .answer import Answer
from .interruption import find_interruption
from .request import Request
from .retries import Retries
from .transport import Transport

T = TypeVar("T")

_AWAY: Final = {502: ServiceUnreachable, 504: ServiceTimeout}
"""What a proxy says of a service that does not answer it."""


class Calls:
    """The calls to one service.

    Args:
        transport: Sends its requests.
        retries: Which requests are repeated, and when.
        patience_seconds: The longest silence of the service, if shorter than the transport's.
    """

    def __init__(
        self, transport: Transport, retries: Retries, *, patience_seconds: float | None = None
    ) -> None:
        self.transport = transport
        self._retries = retries
        self._patience_seconds = patience_seconds

    def within(self, patience_seconds: float | None) -> "Calls":
        """The same calls, during which the service may be silent for this long at most."""
        return Calls(self.transport, self._retries, patience_seconds=patience_seconds)

    def receive(self, request: Request, read: Callable[[Answer], T]) -> T:
        """Send a request and read its answer; both are repeated as `retries` decides.

        Raises:
            ServiceUnreachable: There was no answer.
            ServiceRefused: The answer is a problem.
        """
        made = 0
        while True:
            try:
                with self.transport.exchange(
                    request, patience_seconds=self._patience_seconds
                ) as answer:
                    if not 200 <= answer.status < 300:
                        raise self._judge(answer)
                    return read(answer)
            except (ServiceUnreachable, ServiceBusy) as error:
                made += 1
                pause = self._retries.find_pause(error, made=made, repeatable=request.repeatable)
                if pause is None:
                    raise
                if request.before_repeat is not None and isinstance(error, ServiceUnreachable):
                    request.before_repeat()
            find_interruption().sleep(pause)

    def ask(self, request: Request) -> Any:
        """The JSON of the answer to a request; raises what `receive` raises."""
        content = self.receive(request, Answer.read)
        try:
            return json.loads(content)
        except ValueError as error:
            shown = content[:60].decode(errors="replace")
            reason = f"its answer is not JSON but {shown!r}"
            raise ServiceUnreachable(self.transport.url, reason) from error

    def get(self, path: str, **query: Any) -> Any:
        """The JSON under a path."""
        return self.ask(Request("GET", path, query, repeatable=True))

    def list_pages(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """The pages of a list, asked for one by one."""
        cursor: str | None = None
        while True:
            page = self.get(path, cursor=cursor, **query)
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def remove(self, path: str) -> None:
        """Delete what is under a path.

        After a lost answer the request is repeated; if nothing is there then, the lost one did it.

        Raises:
            NotFound: There was nothing.
        """
        request = Request("DELETE", path)
        try:
            self.receive(request, Answer.read)
        except ServiceTimeout:
            raise
        except ServiceUnreachable:
            try:
                again = Request("DELETE", path, repeatable=True)
                self.receive(again, Answer.read)
            except NotFound:
                return

    def _judge(self, answer: Answer) -> ServiceRefused | ServiceUnreachable:
        """The error for an answer that reports a problem."""
        content = answer.read()
        if (away := _AWAY.get(answer.status)) and not _is_problem(answer):
            return away(self.transport.url, f"a proxy answers {answer.status}")
        try:
            problem = json.loads(content)
        except ValueError:
            problem = None
        if not isinstance(problem, dict):
            problem = {"detail": content[:200].decode(errors="replace")}
        return read_refusal(answer.status, problem, retry_after=answer.headers.get("retry-after"))


def _is_problem(answer: Answer) -> bool:
    """Whether an answer is the service's own: a proxy has no problem documents."""
    return answer.headers.get("content-type", "").startswith("application/problem+json")
