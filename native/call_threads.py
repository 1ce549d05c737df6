"""A thread pool for Python calls that outlives the main thread."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar
from weakref import WeakSet

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Call: TypeAlias = tuple[Future[Any], Callable[[], Any]]


class CallThreads:
    """Runs calls in its own daemon threads until it is closed. Thread-safe.

    Other threads may still multiply when the main thread has ended; then `ThreadPoolExecutor`
    refuses calls, and cannot even be imported. A forked process inherits neither threads nor calls,
    and starts its own threads.

    Args:
        threads: Largest number of threads. One is started when a call finds no idle thread.
        name: Prefix of the threads' names.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._closed = False
        self.begin()
        _pools.add(self)

    def begin(self) -> None:
        """Forget all threads and calls, as a forked process must.

        It may inherit a queue that a thread had locked which it does not have.
        """
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._changing = threading.Lock()
        self._threads: list[threading.Thread] = []

    def submit(
        self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Run a call in a thread; the future gets its result or its error.

        Raises:
            RuntimeError: The pool is closed.
        """
        future: Future[_T] = Future()
        with self._changing:
            if self._closed:
                raise RuntimeError(f"the threads {self._name!r} were ended")
            self._calls.put((future, partial(function, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
                self._start_thread()
        return future

    def close(self) -> None:
        """Wait until all submitted calls are done, and end the threads."""
        with self._changing:
            if not self._closed:
                for _ in self._threads:
                    self._calls.put(None)
            self._closed = True
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(
            target=_make_calls,
            args=(self._calls, self._idle),
            name=f"{self._name}-{len(self._threads)}",
            daemon=True,
        )
        thread.start()
        self._threads.append(thread)


_pools: Final[WeakSet[CallThreads]] = WeakSet()


def _begin_all() -> None:
    for pool in _pools:
        pool.begin()


os.register_at_fork(after_in_child=_begin_all)


def _make_calls(calls: SimpleQueue[_Call | None], idle: threading.Semaphore) -> None:
    while (taken := calls.get()) is not None:
        _make_call(*taken)
        del taken  # an idle thread must not keep the caller's arrays alive
        idle.release()


def _make_call(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
        del future  # breaks the reference cycle through the error's traceback
