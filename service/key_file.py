"""The service's own key: what it must be, and the file that may hold it."""

from pathlib import Path
from typing import Final

LEAST_KEY_CHARACTERS: Final = 16
"""Shortest API key: a shorter one could be guessed."""


def read_key_file(path: Path) -> str:
    """The key in a file, without the end of its line.

    Raises:
        ValueError: The file cannot be read; the message says which one, and why.
    """
    try:
        return path.expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ValueError(f"it is {path}; it must be a file that can be read ({reason})") from error


def check_key(key: str) -> None:
    """Makes sure that a key is long enough and plain.

    Raises:
        ValueError: It is not; the message does not contain it.
    """
    if len(key) < LEAST_KEY_CHARACTERS or not key.isprintable() or key != key.strip():
        raise ValueError(
            f"it has {len(key)} characters; it must have at least {LEAST_KEY_CHARACTERS}, "
            "all of them printable, and no space at its ends"
        )
