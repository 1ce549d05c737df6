"""The machine in a caller's own process: its devices, and products that need no plan.

What plans and runs all others (`planned`) is imported and made for the first of them, which takes
as long as some thousand small products.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from wavetrim.cpu.numpy_products import NumpyProducts
from wavetrim.cpu.threads import blas_limit, count_default_threads
from wavetrim.kernels.device import (
    DeviceInfo,
    explain_no_devices,
    list_devices,
    select_devices,
)
from wavetrim.native.pool import Crowd
from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.local.known import KnownProducts
from wavetrim.scheduler.options import MachineOptions

if TYPE_CHECKING:
    from wavetrim.scheduler.local.planned import PlannedProducts


def find_gpus(choice: str | None) -> tuple[DeviceInfo, ...]:
    """The GPUs to use, as `select_devices`.

    Raises:
        PlanError: One that is listed is not there.
    """
    found = select_devices(choice)
    if choice in (None, "none") or len(found) == len(choice.split(",")):
        return found
    here = ", ".join(f"{info.index} ({info.uuid}, {info.name})" for info in list_devices())
    limit = f'"none", or GPUs that are here: {here or explain_no_devices()}'
    raise PlanError("WAVETRIM_DEVICES", choice, limit)


class ThreadLocks:
    """Locks for threads that compute at the same time, one each; a fork waits for all of them.

    A count of running threads would take two locks in a row, and an interrupt between them would
    leave it wrong.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._finding = threading.Lock()
        self._all: WeakSet[AbstractContextManager[bool]] = WeakSet()

    def find(self) -> AbstractContextManager[bool]:
        """The calling thread's lock; waits while `lock_all` has or awaits the locks."""
        with self._finding:
            try:
                lock: AbstractContextManager[bool] = self._own.lock
            except AttributeError:
                lock = self._own.lock = threading.RLock()  # a signal handler may fork
                self._all.add(lock)
        return lock

    def keep_all(self) -> None:
        """Wait until no thread has its lock, and let none take it any more."""
        self._finding.acquire()
        for lock in tuple(self._all):
            lock.__enter__()

    @contextmanager
    def lock_all(self) -> Iterator[None]:
        """Wait until no thread has its lock, and let none take it until the block ends."""
        with self._finding, ExitStack() as taken:
            for lock in tuple(self._all):
                taken.enter_context(lock)
            yield


class LocalMachine:
    """The devices of this process, and who computes on them. Thread-safe.

    Attributes:
        options: The same.
        gpus: The GPUs that may be used.
        lock: Taken by the product that is running, if threads share it or a plan is run.
        thread_locks: A lock for each thread, taken while it calls BLAS outside `lock`.
        numpy: Products of NumPy.
        known: Products whose way is known; None once the machine has ended.
        has_gpu: Whether there is a usable GPU.
        has_ended: Whether the interpreter exits: neither threads nor GPUs are used any more.
    """

    def __init__(self, options: MachineOptions) -> None:
        self.options = options
        self.gpus = find_gpus(options.devices)
        self.has_gpu, self.has_ended = bool(self.gpus), False
        self.lock = threading.RLock()  # a signal handler may fork
        self.numpy = NumpyProducts(options.cpu_threads or count_default_threads())
        self.thread_locks = ThreadLocks()
        self._planned: PlannedProducts | None = None
        self.known: KnownProducts | None = KnownProducts(self)
        self._left: set[threading.Thread] = set()

    @property
    def planned(self) -> "PlannedProducts":
        """What plans and runs products."""
        if self._planned is None:
            from wavetrim.scheduler.local.planned import PlannedProducts

            with self.lock:
                self._planned = self._planned or PlannedProducts(self)
        return self._planned

    def check_device(self, device: str | None) -> None:
        """Check that a device belongs to this machine.

        Raises:
            PlanError: It is not None, "cpu" or "gpu", or there is no GPU.
        """
        if device not in (None, "cpu", "gpu"):
            limit = 'None, "cpu" or "gpu", of this machine; others can be planned for only'
            raise PlanError("device", device, limit)
        if device == "gpu" and not self.has_gpu:
            choice = self.options.devices
            reason = "the interpreter exits" if self.has_ended else explain_no_devices(choice)
            raise PlanError("device", device, f'None or "cpu": {reason}')

    def find_crowd(self) -> Crowd:
        """Who else wants the cores now. Without a GPU as the latest products of NumPy showed."""
        if not self.has_gpu:
            return "crowded" if self.numpy.lose_cores else "quiet"
        if self._planned is None:
            return "quiet"
        return self.numpy.bound_spinning(self._planned.executor.gpus.pipelines[0].find_crowd())

    def suits_numpy(self, m: int, n: int, k: int, dtype: np.dtype[Any], crowd: Crowd) -> bool:
        """Whether NumPy is to compute a large product of the CPU alone.

        Threads of BLAS that spin afterwards take the cores from copies to a GPU. So where there is
        one NumPy computes it only while others have the cores, or BLAS's threads spin anyway.
        """
        if self.has_gpu and crowd == "quiet":
            return False
        return self.numpy.suit(m, n, k, dtype, is_crowded=crowd == "crowded")

    def call_blas(
        self, crowd: Crowd | None, compute: Callable[..., object], *arguments: Any
    ) -> None:
        """Let the calling thread compute a product by BLAS.

        BLAS has one thread on a crowded machine, and beside a GPU unless its threads spin already.

        Args:
            crowd: Who else wants the cores; None for a product that BLAS does not divide.
            compute: The function that computes it.
            *arguments: The function's.
        """
        is_alone = crowd == "crowded" or (self.has_gpu and crowd == "quiet")
        with self.enter_thread():
            if is_alone:
                blas_limit.run(compute, *arguments)
                return
            compute(*arguments)
            if crowd == "contended":
                self.numpy.note_spinning()

    def enter_thread(self) -> AbstractContextManager[Any]:
        """What the calling thread holds while it calls BLAS outside `lock`."""
        if self.has_ended:
            self.stop_daemon()
            return nullcontext()
        return self.thread_locks.find()

    def stop_daemon(self) -> None:
        """Let a daemon thread that is left as the interpreter exits wait until the process ends."""
        if threading.current_thread() in self._left:
            threading.Event().wait()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let nothing be computed until the block ends."""
        with self.lock, nullcontext() if self.has_ended else self.thread_locks.lock_all():
            yield

    def end(self) -> None:
        """Cancel the running product, end the threads and free memory, as the interpreter exits.

        The calling thread alone computes what comes after that.
        """
        self._left = {thread for thread in threading.enumerate() if thread.daemon}
        self.has_gpu, self.has_ended, self.known = False, True, None
        with self.lock:
            # OpenBLAS, as the process ends, may wait for ever for a thread that is in a product.
            self.thread_locks.keep_all()
            if self._planned is not None:
                self._planned.close()
                self._planned = None  # another one plans, without threads
