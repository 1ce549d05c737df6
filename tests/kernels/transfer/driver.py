"""The driver of driver.c in a program of its own, because it has the name of CUDA's.

The program's arguments are that library, the folder of compiled C, and what else it needs.
"""

import ctypes
import sys
from pathlib import Path

import numpy as np

from wavetrim.kernels.pipeline.submission import Binding
from wavetrim.kernels.transfer import stage as stages
from wavetrim.kernels.transfer.host_library import open_copiers

UNTIMED = 2


class Refusal(Exception):
    """A status of the driver, in place of CuPy's exception."""


def refuse(status):
    raise Refusal(status)


class Stream:
    """One of the driver's streams, as CuPy has them."""

    def __init__(self, number):
        self.ptr = number


class Driver:
    """The driver, and memory of the host for slabs.

    Attributes:
        functions: Those of CUDA, and `refuse`, `fail`, `hold` and `count_works`.
        slabs: The memory that is not freed, by its address.
    """

    def __init__(self):
        self.functions = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
        self.slabs = {}
        stages._allocate_slabs = self._allocate
        stages._free_slabs = self.slabs.pop
        stages._raise = refuse
        context = ctypes.c_void_p()
        self.functions.cuCtxGetCurrent(ctypes.byref(context))
        self._context = context.value

    def _allocate(self, size_bytes):
        memory = np.empty(size_bytes, np.uint8)
        self.slabs[memory.ctypes.data] = memory
        return memory.ctypes.data

    def open_pool(self, threads):
        return open_copiers(threads, cache_dir=Path(sys.argv[2]))

    def make_events(self, count):
        """New events, to be kept as long as a binding has them."""
        events = (ctypes.c_void_p * count)()
        for place in range(count):
            address = ctypes.addressof(events) + place * ctypes.sizeof(ctypes.c_void_p)
            assert self.functions.cuEventCreate(ctypes.c_void_p(address), UNTIMED) == 0
        return events

    def bind(self, events, *, streams=(0, 0, 0, 0), **more):
        binding = Binding(events=ctypes.addressof(events), context=self._context, **more)
        binding.streams[:] = list(streams)
        return binding


def pack_commands(*commands):
    """Commands as C reads them, each with its words and zeros."""
    return np.array([(*one, *(0,) * (11 - len(one))) for one in commands], np.int64)


def run_commands(pool, commands, binding, *, event=-1, at_once=0):
    """The status of commands that are enqueued, and of waiting for an event."""
    address, count = commands.ctypes.data, len(commands)
    return pool.library.run_commands(address, count, ctypes.addressof(binding), event, at_once)
