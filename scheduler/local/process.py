"""The machine of this process: created on first use, ended when the interpreter exits.

The calling thread alone computes what handlers that `atexit` calls later multiply.

A forked process creates its own, without the GPU if its parent used that: CUDA does not survive a
fork.
"""

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wavetrim.scheduler.errors import ForkedProcess
from wavetrim.scheduler.local.machine import LocalMachine
from wavetrim.scheduler.options import MachineOptions

if TYPE_CHECKING:
    from wavetrim.scheduler.local.known import KnownProducts

FORKED: Final = (
    "this process was forked from one that used the GPU, and CUDA does not survive a fork; start "
    'it by "spawn" or "forkserver" (multiprocessing.set_start_method), or use device="cpu"'
)


class _Process:
    """The machine of this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may fork
        self._machine: LocalMachine | None = None
        self._options: MachineOptions | None = None
        self._inherited: list[LocalMachine] = []  # kept, so that they are never finalized here
        self._is_ending = False
        self._paused = ExitStack()

    def find(self, read_options: Callable[[], MachineOptions], *, needs_gpu: bool) -> LocalMachine:
        """The machine of this process, created by the first call.

        Args:
            read_options: Called by the first call.
            needs_gpu: Whether the GPU may be used, if there is one.

        Raises:
            ForkedProcess: `needs_gpu` is set, and this process was forked from one that used the
                GPU.
        """
        machine = self._machine
        if machine is not None and not self._inherited:
            return machine
        lost_gpu = any(parents.has_gpu for parents in self._inherited)
        if lost_gpu and needs_gpu:
            raise ForkedProcess(FORKED)
        with self._lock:
            if self._machine is None:
                options = self._options = self._options or read_options()
                if lost_gpu or self._is_ending:
                    options = replace(options, devices="none")
                machine = LocalMachine(options)
                if self._is_ending:
                    machine.end()
                self._machine = machine
            return self._machine

    def end(self) -> None:
        """End the machine, as the interpreter exits."""
        with self._lock:
            self._is_ending = True
            machine = self._machine
        if machine is not None:
            machine.end()

    def begin_fork(self) -> None:
        """Wait for all that is computed: a fork during it may hang OpenBLAS."""
        self._lock.acquire()
        if self._machine is not None:
            self._paused.enter_context(self._machine.pause())

    def end_fork(self) -> None:
        """Let products run again in the parent."""
        self._paused.close()
        self._lock.release()

    def begin_child(self) -> None:
        """Drop the machine in a forked process, which has none of its threads."""
        self.end_fork()
        self._options = None
        if self._machine is not None:
            self._inherited.append(self._machine)
            self._machine = None

    def find_known(self) -> "KnownProducts | None":
        """The products of this process whose way is known; None without any."""
        machine = self._machine
        return None if machine is None else machine.known


_process: Final = _Process()
atexit.register(_process.end)
os.register_at_fork(
    before=_process.begin_fork,
    after_in_parent=_process.end_fork,
    after_in_child=_process.begin_child,
)
find_machine: Final = _process.find
find_known: Final = _process.find_known
