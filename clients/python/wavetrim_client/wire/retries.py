"""Which request is sent again after which failure, and when (pure)."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..errors import ClientError, ServiceBusy, ServiceTimeout, ServiceUnreachable

LONGEST_PAUSE_SECONDS: Final = 5.0
"""A service that asks for a longer pause is not asked again: its caller should know."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and after which pauses, a request is sent again.

    Attributes:
        tries: How often a request is sent at most, the first time included.
        first_pause_seconds: The longest pause before the second try; each next is twice as long.
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
        """Seconds until the next try; None when there is none.

        A request whose connection broke is sent again only where that cannot do anything twice. A
        refusal with 503 and Retry-After has done nothing, so every request is. What the service
        was silent about for the whole timeout has been waited for long enough.

        Args:
            error: What the last try met.
            made: Tries that were made.
            repeatable: Whether the request may arrive twice.
            draw: A random number from 0 to 1: many callers should not come back at once.
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
