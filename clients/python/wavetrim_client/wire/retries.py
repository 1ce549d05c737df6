"""Which requests are repeated after which failure, and when."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..errors import ClientError, ServiceBusy, ServiceTimeout, ServiceUnreachable

LONGEST_PAUSE_SECONDS: Final = 5.0
"""If the service asks for a longer pause, the request is not repeated: the caller should know."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and after which pauses, a request is repeated.

    Attributes:
        tries: How often a request is sent at most, the first time included.
        first_pause_seconds: Longest pause before the second try; it doubles with every try.
    """

    tries: int = 4
    first_pause_seconds: float = 0.1

    def find_pause(
        self,
        error: ClientError,
        *,
        made: int,
        repeatable: bool,
        draw: Callable[[], float] = random.random,
    ) -> float | None:
        """Seconds until the next try; None if there is none.

        After a lost connection only a repeatable request is repeated. After 503 with Retry-After
        every request is, as the service has done nothing. After a timeout none is: it has waited
        long enough.

        Args:
            error: The error of the last try.
            made: Tries that were made.
            repeatable: Whether the request may arrive twice.
            draw: Draws a number from 0 to 1, so that many callers do not come back at once.
        """
        if made >= self.tries:
            return None
        longest: float = min(self.first_pause_seconds * 2.0 ** (made - 1), LONGEST_PAUSE_SECONDS)
        if isinstance(error, ServiceBusy):
            asked = error.retry_after_seconds
            if error.status != 503 or asked is None or asked > LONGEST_PAUSE_SECONDS:
                return None
            return asked + longest * draw()
        if not isinstance(error, ServiceUnreachable) or isinstance(error, ServiceTimeout):
            return None
        return longest * draw() if repeatable else None
