"""What an engine has to do is told to other threads, too, as those of /metrics and /v1/devices."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.service.jobs.lanes.load import Load
from wavetrim.service.jobs.lanes.turn import Turn

SECONDS = 0.5


def make_turn() -> Turn:
    one = Operand(0, 0, 4, 4, "float32")
    request = RunRequest(
        job="", a=one, b=one, c=None, out=one, alpha=1.0, beta=0.0, verify=False
    )  # fmt: skip
    return Turn(request)


@contextmanager
def busy_threads() -> Iterator[None]:
    """Threads take turns far more often than usual, as they do by chance on a busy machine."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def test_a_thread_may_ask_while_products_come_and_go() -> None:
    load, errors = Load(), list[Exception]()
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            try:
                load.list_busy([0, 1])
            except RuntimeError as error:
                errors.append(error)

    async def come_and_go() -> None:
        turn, until = make_turn(), time.monotonic() + SECONDS
        jobs = [str(number) for number in range(8)]
        while time.monotonic() < until:
            for job in jobs:
                load.add(job, turn, 0.1)
            for job in jobs:
                load.remove(job)

    asking = threading.Thread(target=ask)
    with busy_threads():
        asking.start()
        asyncio.run(come_and_go())
        ended.set()
        asking.join()
    assert not errors
