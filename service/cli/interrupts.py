"""How Ctrl-C and SIGTERM end a command."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def raise_on_termination() -> None:
    """Let SIGTERM and a closed terminal end a command as Ctrl-C does, with its clean-up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)


@contextlib.contextmanager
def note_interrupts() -> Iterator[Callable[[], bool]]:
    """Within the block the first Ctrl-C or SIGTERM is only noted, the second interrupts at once.

    Yields:
        A function that says whether there was one. If so, the block's end raises KeyboardInterrupt.
    """
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            signal.default_int_handler(number, frame)
        noted = True

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield lambda: noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt
