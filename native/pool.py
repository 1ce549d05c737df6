"""A pool of C threads that help with tasks: copies, or blocks of products (pool.c)."""

import ctypes
import os
import threading
from typing import Final, Literal, get_args

from wavetrim.native.tuned import AWAKE_SECONDS

Crowd = Literal["quiet", "contended", "crowded"]
"""Who else wants the cores: nobody, other threads of this process, or other processes."""

CROWDS: Final[tuple[Crowd, ...]] = get_args(Crowd)


class ThreadPool:
    """A pool of C threads. Thread-safe.

    Copies and blocks have a pool each. A forked process inherits no threads.

    Args:
        library: A library of `load_library`; all contain the functions of pool.h.
        threads: Number of threads, not counting callers.
        awake_seconds: How long a thread without a task polls before it sleeps.
        settles: Whether each thread sleeps on a core of its own, if there are enough cores.

    Attributes:
        library: The C library.
        threads: Number of threads, not counting callers.

    Raises:
        MemoryError: No memory for the pool.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        threads: int,
        *,
        awake_seconds: float = AWAKE_SECONDS,
        settles: bool = False,
    ) -> None:
        self.library = library
        self.threads = threads
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._users = 0
        self._address: int | None = library.open_pool(threads, round(awake_seconds * 1e9), settles)
        if self._address is None:
            raise MemoryError(f"no memory for a pool of {threads} threads")

    @property
    def has_threads(self) -> bool:
        """Whether the pool has threads: False once it is closed, and in a forked process."""
        return not self._closed and os.getpid() == self._process

    def find_crowd(self) -> Crowd:
        """Who else wants more than half of the machine's cores now (waiting.h)."""
        crowd: Crowd = CROWDS[self.library.find_crowd()]
        return crowd

    def __enter__(self) -> int | None:
        """The pool's address, valid until the block ends; None once the pool is closed."""
        with self._lock:
            self._users += 1
            return None if self._closed else self._address

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._closed or self._users:
                return
            address, self._address = self._address, None
        if address is not None:
            self.library.free_pool(address)  # the last user frees its memory

    def wake(self, threads: int) -> None:
        """Wake this many threads for a task that follows soon."""
        with self as address:
            if address is not None:
                self.library.wake_pool(address, threads)

    def limit(self, threads: int) -> None:
        """Limit how many threads look for tasks from now on."""
        with self as address:
            if address is not None:
                self.library.limit_pool(address, threads)

    def close(self) -> None:
        """End the threads once their current parts are done. Idempotent."""
        with self:
            with self._lock:
                closes, self._closed = self.has_threads, True
            if closes:
                self.library.close_pool(self._address)
