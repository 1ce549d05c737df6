"""The executor alone, in a process of its own: a product without moving its operands."""

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from benchmarks.common.operands import draw_operands, pin_operands
from benchmarks.common.profile import make_profile
from benchmarks.common.shapes import Shape, make_cube
from benchmarks.http.baselines.baseline import Baseline, BaselineFailed, Name, Setup
from benchmarks.http.baselines.server_process import ServerAbsent
from benchmarks.http.clients.load import Load
from benchmarks.http.clients.product import Product
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile, read_key, store_profile
from wavetrim.service.cli.machine import count_threads, find_devices, load_machine_settings


class ExecutorBaseline(Baseline):
    """No socket, no bytes moved, one product at a time.

    Operands are page-locked if there is a GPU. Between two products the process sleeps.

    Attributes:
        profile: The profile that it runs with, ready for JSON, once it was started.
    """

    name = Name.EXECUTOR

    def __init__(self, setup: Setup) -> None:
        self.profile: dict[str, Any] = {}
        self._setup = setup
        self._drawn: tuple[Shape, str] | None = None
        self._process: SpawnProcess | None = None

    def start(self) -> None:
        """Start the process, which calibrates the machine if no profile was given."""
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._setup), daemon=True)
        self._process.start()
        other.close()
        found = self._hear()
        if isinstance(found, str):
            raise ServerAbsent(found)
        self.profile = found

    def measure(self, products: Sequence[Product], clients: int, seconds: float) -> Load:
        """Compute products one after the other, for any number of clients."""
        del clients
        return self.run(make_cube(products[0].size), products[0].a.dtype.name, seconds)

    def run(self, shape: Shape, dtype: str, seconds: float) -> Load:
        """Compute a product for some time; the first one of a shape does not count.

        Raises:
            BaselineFailed: The process has ended.
        """
        if self._drawn != (shape, dtype):
            self._compute((shape, dtype))
            self._drawn = shape, dtype
        load = Load()
        began = time.perf_counter()
        while True:
            load.seconds.append(self._compute(None))
            load.elapsed_seconds = time.perf_counter() - began
            if load.elapsed_seconds >= seconds:
                return load

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def _compute(self, product: tuple[Shape, str] | None) -> float:
        """Seconds of a new product, or of the last one again."""
        with contextlib.suppress(OSError):  # _hear tells why
            self._pipe.send(product)
        return float(self._hear())

    def _hear(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            raise BaselineFailed("the executor's process has ended") from error


def _serve(pipe: Connection, setup: Setup) -> None:
    """Send the profile, or an error instead; then the seconds of each product asked for."""
    settings = load_machine_settings()
    devices, threads = find_devices(settings), count_threads(settings)
    setup.kernels.mkdir(parents=True, exist_ok=True)
    with Executor(cache_dir=setup.kernels, devices=devices, cpu_threads=threads) as executor:
        try:
            profile = _keep_profile(executor, setup)
        except (ProfileError, OSError) as error:
            pipe.send(str(error))
            return
        pipe.send(profile.as_dict())
        while True:
            if product := pipe.recv():
                operands = draw_operands(*product)
                if profile.gpu is not None:
                    operands = pin_operands(operands)
            plan = choose_plan(operands.problem, profile)
            timings = executor.run(plan, operands.a, operands.b, operands.c)
            pipe.send(timings.total_seconds)


def _keep_profile(executor: Executor, setup: Setup) -> MachineProfile:
    """This machine's profile, measured or of a file, stored where the service finds it."""
    with contextlib.redirect_stdout(sys.stderr):  # rows go by standard output
        profile = make_profile(executor, setup.kernels, setup.profile)
    devices, threads = executor.devices, executor.pool.threads
    key = read_key(devices[0] if devices else None, threads)
    # A service takes a stored profile as this machine's by its key, and as measured.
    measured_at = profile.measured_at or datetime.now(UTC).isoformat(timespec="seconds")
    store_profile(replace(profile, key=key, measured_at=measured_at), setup.profiles)
    return find_profile(None, devices=devices, directory=setup.profiles, cpu_threads=threads)
