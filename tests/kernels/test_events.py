"""Waiting for an event of a failed device ends."""

import subprocess
import sys

import pytest

from tests.environment import ROOT

pytestmark = pytest.mark.gpu

# A program of its own, because it loses its context: it writes to an invalid address.
PROGRAM = """
import cupy
from cupy.cuda import Event, MemoryPointer, UnownedMemory
from wavetrim.kernels.transfer.copies import DirectCopy
from wavetrim.kernels.events import await_event

event = Event()
cupy.zeros(8).fill(1)  # compiles the kernel
nobodys = MemoryPointer(UnownedMemory(4096, 4096, None, 0), 0)
cupy.ndarray(8, memptr=nobodys).fill(1)
event.record()
for look in (
    lambda: await_event(event),
    lambda: await_event(event, awake=True),
    DirectCopy(event, event, outwards=True, awake=False).done,
):
    try:
        look()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(error.status)
"""


def test_waiting_for_a_failed_device_raises_its_error():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["700"] * 3, done.stderr
