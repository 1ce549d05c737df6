"""The thread that makes plans anew beside products, so that none waits for that."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

LOOK_SECONDS: Final = 1.0
"""Least time between two looks at the plans; chosen."""

REST_TIMES: Final = 100.0
"""Rest after a look, as a multiple of the time that it took: Python runs one thread at a time, so
products are slower by at most 1% in the mean. Chosen."""

IDLE_LOOKS: Final = 5
"""Looks that find no plan in use before the thread ends; chosen."""


class Revisable(Protocol):
    """A plan that may be made anew."""

    @property
    def was_used(self) -> bool:
        """Whether it was used since it was last revised."""

    def revise(self) -> None:
        """Make it anew if it has to be."""


class Revisions:
    """Looks now and then at the plans in use. Thread-safe.

    The thread ends when no plan is in use; `start` begins another one. Its priority is that of all:
    one that waits for a core while it has the interpreter's lock would delay products.

    Args:
        list_plans: Lists all plans.

    Attributes:
        are_running: Whether the thread runs.
    """

    def __init__(self, list_plans: Callable[[], Sequence[Revisable]]) -> None:
        self._list_plans = list_plans
        self._starting = threading.RLock()  # a signal handler may compute a product, too
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self.are_running = False

    def start(self) -> None:
        """Start the thread, if it does not run and nothing is closed."""
        with self._starting:
            if self.are_running or self._ending.is_set():
                return
            thread = threading.Thread(target=self._work, name="revisions", daemon=True)
            self.are_running = True
            try:
                thread.start()
            except RuntimeError:  # no thread is to be had: plans stay as they are, products go on
                self.are_running = False
                return
            self._thread = thread

    def close(self) -> None:
        """End the thread, and start no other."""
        self._ending.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        rest_seconds, idle = LOOK_SECONDS, 0
        while idle < IDLE_LOOKS and not self._ending.wait(rest_seconds):
            began = time.perf_counter()
            in_use = [one for one in self._list_plans() if one.was_used]
            for one in in_use:
                one.revise()
                if self._ending.is_set():
                    break
            idle = 0 if in_use else idle + 1
            rest_seconds = max(LOOK_SECONDS, REST_TIMES * (time.perf_counter() - began))
        self.are_running = False
