"""Programs: the command buffers of several GPUs that compute parts of one product (`team`)."""

import ctypes
from collections.abc import Sequence
from typing import Any

from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer
from wavetrim.kernels.pipeline.commands.submission import OPERANDS, Submitter, Waiting, check_status
from wavetrim.kernels.pipeline.resident_cache import Resident


class _Program(ctypes.Structure):
    """The commands of one GPU of a team, as in kernels/transfer/native/commands.c."""

    _fields_ = (
        ("commands", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("turns", ctypes.c_int64),
        ("binding", ctypes.c_void_p),
        ("events", ctypes.c_void_p),
        ("first_row", ctypes.c_int64),
        ("left_bytes", ctypes.c_int64),
        ("begin", ctypes.c_int64),
        ("end", ctypes.c_int64),
    )


class Programs:
    """The commands of all GPUs of a team, which are enqueued and awaited by one call each.

    Args:
        submitters: The GPUs.
        buffers: The commands of each, which time at least the whole.
        starts: Where the part of each begins: its first row of A and C, and the bytes before its
            first column in a row of B and C.
        waiting: How the calling thread waits for them.
        residents: The resident B of each GPU, so that it stays alive; None for none.

    Attributes:
        buffers: The commands of each.
    """

    def __init__(
        self,
        submitters: Sequence[Submitter],
        buffers: Sequence[CommandBuffer],
        starts: Sequence[tuple[int, int]],
        waiting: Waiting,
        residents: Sequence[Resident | None] = (),
    ) -> None:
        self._residents = tuple(residents)
        self._submitters, self.buffers = tuple(submitters), tuple(buffers)
        self._waiting = waiting
        count = len(self.buffers)
        self._programs = (_Program * count)()
        self._seconds = (ctypes.c_double * count)()
        for program, submitter, buffer, start in zip(
            self._programs, submitters, buffers, starts, strict=True
        ):
            program.commands, program.ends = buffer.address, buffer.ends.ctypes.data
            program.turns, program.binding = len(buffer.ends), submitter.address
            program.first_row, program.left_bytes = start
            ((program.begin, program.end),) = buffer.whole_span.tolist()
        library = submitters[0].library
        self._run, self._await = library.run_in_turns, library.await_team
        self._hosts: Any = (ctypes.c_void_p * OPERANDS)()
        self._pitches: Any = (ctypes.c_int64 * OPERANDS)()

    def enqueue(self, addresses: Sequence[int], pitches: Sequence[int]) -> None:
        """Enqueue the commands in turns: a step of each GPU, then the next one of each.

        Args:
            addresses: Addresses of all of A, B and C in page-locked memory.
            pitches: Their row strides in bytes.

        Raises:
            DeviceFailure: cuBLAS refuses a product.
            CUDADriverError: CUDA refuses a command.
        """
        self._hosts[:] = addresses
        self._pitches[:] = pitches
        count = len(self.buffers)
        for number in range(count):  # another product may have moved the array of events
            events = self._submitters[number].reserve_events(self.buffers[number])
            self._programs[number].events = events
        status = self._run(self._programs, count, self._hosts, self._pitches)
        check_status(self.buffers[0].label, status)

    def finish(self) -> list[float]:
        """Wait for all GPUs; returns the seconds of each, from its first command to its last.

        Raises:
            CUDADriverError: A device failed.
        """
        status = self._await(self._programs, len(self.buffers), self._waiting, self._seconds)
        check_status(self.buffers[0].label, status)
        return list(self._seconds)
