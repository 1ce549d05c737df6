"""An engine process for tests, and requests for it."""

import mmap
import os
import socket
import subprocess
import sys

import numpy as np

from tests.matrices import make_matrix, poison
from wavetrim.scheduler.engine.messages import (
    PACKET_BYTES,
    Operand,
    RunRequest,
    decode_message,
    encode_message,
)
from wavetrim.scheduler.options import MachineOptions


class WorkerProcess:
    """An engine process, and our ends of its two sockets."""

    def __init__(self, folder, *, cache, devices="none"):
        options = MachineOptions(cache, folder, devices, cpu_threads=2)
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        (self.work, self.control), theirs = zip(*pairs, strict=True)
        for connection in (self.work, self.control):
            connection.settimeout(60)
        files = [connection.fileno() for connection in theirs]
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "wavetrim.scheduler.engine", "--fds", *map(str, files),
                "--options", options.as_json(),
            ],
            pass_fds=files,
        )  # fmt: skip
        for connection in theirs:
            connection.close()
        self.runs = 0
        self.numbers = {}

    def send(self, message, files=()):
        """Send a message, with descriptors, that is read between products; runs get a number."""
        if message["type"] == "run":
            self.runs += 1
            self.numbers[message["job"]] = self.runs
            message = {**message, "number": self.runs}
        socket.send_fds(self.work, [encode_message(message)], list(files))

    def tell(self, message):
        """Send a message that is read while a product runs."""
        self.control.send(encode_message(message))

    def cancel(self, job):
        """Cancel the latest run of a job; returns when the worker has read it."""
        self.tell({"type": "cancel", "job": job, "number": self.numbers[job]})
        self.tell({"type": "ping"})
        assert self.receive(self.control)["type"] == "pong"

    def share_slab(self, slab, size_bytes=2**20):
        """Share new memory as a slab; returns our view of it."""
        file = os.memfd_create("slab")
        os.ftruncate(file, size_bytes)
        memory = np.frombuffer(mmap.mmap(file, size_bytes), np.uint8)
        self.send({"type": "slab", "slab": slab, "size_bytes": size_bytes}, files=[file])
        os.close(file)
        return memory

    def receive(self, connection=None):
        """The next message of the work socket, or of another."""
        return decode_message((connection or self.work).recv(PACKET_BYTES))

    def receive_until(self, *types):
        """The messages up to the first of one of these types."""
        seen = [self.receive()]
        while seen[-1]["type"] not in types:
            seen.append(self.receive())
        return seen

    def run(self, request):
        """Send a request; returns all messages about it."""
        self.send(request.as_message())
        return self.receive_until("succeeded", "failed", "cancelled")

    def close(self):
        self.work.close()
        self.control.close()


def write(folder, name, array):
    path = folder / name
    np.save(path, array)
    offset = path.stat().st_size - array.nbytes
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    *stack, rows, columns = array.shape
    return Operand(str(path), offset, rows, columns, str(array.dtype), fortran, None, *stack)


def read(operand):
    return np.load(operand.slab)


def make_request(folder, a, b, c=None, **options):
    """A request for a product, or a stack of them, whose operands are saved in a folder."""
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = poison(np.empty((*stack, a.shape[-2], b.shape[-1]), a.dtype))
    return RunRequest(
        job="job-1",
        a=write(folder, "a.npy", a),
        b=write(folder, "b.npy", b),
        c=None if c is None else write(folder, "c.npy", c),
        out=write(folder, "out.npy", out),
        **options,
    )


def make_slow_request(folder, size=2000):
    """About three seconds of two cores, or less: 64-bit integers have no fast product."""
    a = make_matrix(size, size, "int64", seed=1)
    return make_request(folder, a, a)
