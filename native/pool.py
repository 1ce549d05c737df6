"""Threads in C that take part in tasks: copies, or blocks of products (pool.c)."""

import ctypes
import os
import threading
from ctypes import c_int, c_void_p

from wavetrim.native.library import declare_functions


class ThreadPool:
    """A pool of C threads. Safe to use from several threads.

    A process has one for each priority: threads that copy are as urgent as any others, those that
    compute blocks yield to all others where there is a GPU to feed. A forked process has none of
    the threads.

    Args:
        library: A C library, each of which has the functions of pool.h.
        threads: Threads beside the callers'.
        settles: Whether each sleeps on a core of its own, where there are enough.
        yields: Whether they leave the cores to all others that want them.

    Attributes:
        library: The C library.
        threads: Threads beside the callers'.

    Raises:
        MemoryError: There is none for the pool.
    """

    def __init__(
        self, library: ctypes.CDLL, threads: int, *, settles: bool = False, yields: bool = False
    ) -> None:
        declare_functions(
            library,
            {
                "open_pool": (c_void_p, (c_int, c_int, c_int)),
                "close_pool": (None, (c_void_p,)),
                "free_pool": (None, (c_void_p,)),
                "wake_pool": (None, (c_void_p, c_int)),
                "limit_pool": (None, (c_void_p, c_int, c_int)),
            },
        )
        self.library = library
        self.threads = threads
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._holders = 0
        self._hold = _Hold(self)
        self._address: int | None = library.open_pool(threads, settles, yields)
        if self._address is None:
            raise MemoryError(f"no memory for a pool of {threads} threads")

    @property
    def has_threads(self) -> bool:
        """Whether tasks find threads here: not once it is closed, nor in a forked process."""
        return not self._closed and os.getpid() == self._process

    def hold(self) -> "_Hold":
        """The pool's address for C, which stays good for the block; None once it is closed."""
        return self._hold

    def wake(self, threads: int) -> None:
        """Have so many of the threads awake for a task that follows soon."""
        with self.hold() as address:
            if address is not None:
                self.library.wake_pool(address, threads)

    def limit(self, threads: int, *, shares_cores: bool = False) -> None:
        """Have only so many of the threads awake for tasks from now on.

        Args:
            threads: So many.
            shares_cores: Whether others compute on the same cores.
        """
        with self.hold() as address:
            if address is not None:
                self.library.limit_pool(address, threads, shares_cores)

    def close(self) -> None:
        """End the threads behind the parts that they have; calling it again does nothing."""
        with self._lock:
            closes = self.has_threads
            self._closed = True
            self._holders += 1
        if closes:
            self.library.close_pool(self._address)
        self.let_go()

    def take_hold(self) -> int | None:
        """Have the address, and keep the pool's memory until `let_go`; None once it is closed."""
        with self._lock:
            self._holders += 1
            return None if self._closed else self._address

    def let_go(self) -> None:
        """End what `take_hold` began."""
        with self._lock:
            self._holders -= 1
            if not self._closed or self._holders:
                return
            address, self._address = self._address, None
        if address is not None:
            self.library.free_pool(address)


class _Hold:
    """The block of `ThreadPool.hold`: one for all, as a generator each takes some microseconds."""

    __slots__ = ("_pool",)

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool

    def __enter__(self) -> int | None:
        return self._pool.take_hold()

    def __exit__(self, *_: object) -> None:
        self._pool.let_go()
