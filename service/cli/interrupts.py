"""How Ctrl-C, SIGTERM and a closed terminal end a command.

Under `nohup` a closed terminal does not: SIGHUP is ignored there, and stays so.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def raise_on_termination() -> None:
    """Let SIGTERM and a closed terminal end a command as Ctrl-C does, with its clean-up."""
    for number in list_ends():
        signal.signal(number, signal.default_int_handler)


def list_ends() -> list[signal.Signals]:
    """The signals that end a command: those that its caller did not have it ignore."""
    return [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]


@contextlib.contextmanager
def note_interrupts() -> Iterator[Callable[[], bool]]:
    """Within the block the first of these signals is only noted, the second interrupts at once.

    Yields:
        A function that says whether there was one. If so, the block's end raises KeyboardInterrupt.
    """
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            signal.default_int_handler(number, frame)
        noted = True

    before = {number: signal.signal(number, note) for number in list_ends()}
    try:
        yield lambda: noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt
