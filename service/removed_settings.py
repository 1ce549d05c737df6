"""Settings of earlier versions: what does their work now, and which of them refuse the start.

One that opened or closed a door (a key, a token, a port) must not be ignored: who set it would
believe that the door is still as he left it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wavetrim.service.errors import SettingRefused


@dataclass(frozen=True, slots=True)
class Removed:
    """A setting that is no more.

    Attributes:
        instead: What does its work now, in words.
        refused: Whether the service does not start while it is set.
    """

    instead: str
    refused: bool = False


REMOVED: Final[Mapping[str, Removed]] = {
    "WAVETRIM_ACCESS_LOG": Removed("WAVETRIM_LOG_LEVEL=debug logs every request"),
}


def refuse_removed(environment: Mapping[str, str]) -> None:
    """Makes sure that no setting is set that once opened or closed a door.

    Raises:
        SettingRefused: One is.
    """
    for variable, value in environment.items():
        removed = REMOVED.get(variable.upper())
        if removed is not None and removed.refused and value:
            raise SettingRefused(variable, value, f"left out, as it is gone: {removed.instead}")
