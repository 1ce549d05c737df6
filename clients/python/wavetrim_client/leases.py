"""Leases: memory that this process and a service on the same host share, and the arrays in it.

The service hands the memory over its own socket. A new array takes the first place with room for
it, and a product names it by its lease and offset, so that no matrix is sent.
"""

import ctypes
import fcntl
import json
import math
import mmap
import os
import socket
import struct
import threading
import time
import weakref
from typing import Any, Final, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .errors import ClientError, NotFound, ServiceUnreachable, Unauthorized
from .wire.address import connect_unix
from .wire.calls import Calls, make_json_body
from .wire.connection import Request

_LEAST_BYTES: Final = 16 * 2**20
_MOST_AHEAD_BYTES: Final = 2**30
"""A new lease is as large as all others together, within these bounds (chosen), so that leases are
few and few of their bytes are idle."""

_ALIGNMENT_BYTES: Final = 4096
_RETRY_SECONDS: Final = 5.0
"""How long no lease is asked for after a refusal; chosen."""

_ANSWER_BYTES: Final = 4096
_ANSWER_SECONDS: Final = 10.0
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group
_SEALS: Final = ("F_SEAL_SHRINK", "F_SEAL_GROW")


class LeasedMemory:
    """The leases of one client. Safe for several threads.

    An array keeps its place until it and all views of it are gone. Its lease lives as long, even
    when the client is closed. A forked process begins without leases.

    Attributes:
        offered: Whether the service may have leases: it is on this host, and has not said no.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._leases: list[Lease] = []
        self._process = os.getpid()
        self._asks_again = 0.0
        is_local = bool(calls.address.socket_path)
        self.offered = is_local and hasattr(socket, "SO_PEERCRED")

    def obtain(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any] | None:
        """A new array in a lease, or None if there is no room."""
        elements = np.dtype(dtype)
        lengths = np.broadcast_shapes(shape)
        size_bytes = math.prod(lengths) * elements.itemsize
        if not self.offered or size_bytes == 0:
            return None
        reserved_bytes = -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        block = self._take(reserved_bytes)
        if block is None and self._grow(reserved_bytes):
            block = self._take(reserved_bytes)
        return None if block is None else np.ndarray(lengths, elements, block)

    def find(self, matrix: NDArray[Any] | None) -> dict[str, Any] | None:
        """How a product names a matrix; None if it lies elsewhere, or its elements overlap."""
        if matrix is None or not matrix.dtype.isnative or 0 in matrix.shape:
            return None
        address = matrix.__array_interface__["data"][0]
        for lease in tuple(self._leases):
            offset = address - lease.address
            if 0 <= offset < len(lease):
                if offset % matrix.itemsize or not _has_own_places(matrix):
                    return None
                return {
                    "lease": lease.id,
                    "offset_bytes": offset,
                    "shape": matrix.shape,
                    "dtype": matrix.dtype.name,
                    "strides_bytes": matrix.strides,
                }
        return None

    def place(self, matrix: NDArray[Any]) -> NDArray[Any] | None:
        """A matrix in a lease: itself, or its copy; None if there is no room."""
        if self.find(matrix):
            return matrix
        copy = self.obtain(matrix.shape, matrix.dtype.newbyteorder("="))
        if copy is not None:
            np.copyto(copy, matrix)
        return copy

    def leave(self) -> None:
        """Place no more arrays in the present leases, as the service may still write there."""
        with self._lock:
            self._leases = []

    def _grow(self, needed_bytes: int) -> bool:
        """Ask for one more lease; returns whether there is one."""
        if time.monotonic() < self._asks_again:
            return False
        held_bytes = sum(map(len, self._leases))
        ahead_bytes = min(_MOST_AHEAD_BYTES, max(_LEAST_BYTES, held_bytes))
        for size_bytes in (max(needed_bytes, ahead_bytes), needed_bytes):
            try:
                lease = open_lease(self._calls, size_bytes)
            except (Unauthorized, NotFound):
                self.offered = False  # a service without leases
                return False
            except ClientError:
                continue
            with self._lock:
                self._leases.append(lease)
            return True
        self._asks_again = time.monotonic() + _RETRY_SECONDS
        return False

    def _take(self, size_bytes: int) -> Any:
        """A range of a lease, which is free again when nothing refers to it; None for none.

        Of the unused leases only the largest is kept.
        """
        if self._process != os.getpid():
            # The parent goes on to place arrays there.
            self._process, self._lock, self._leases = os.getpid(), threading.Lock(), []
        with self._lock:
            used = [lease for lease in self._leases if lease.is_used()]
            unused = [lease for lease in self._leases if lease not in used]
            self._leases = [*used, *sorted(unused, key=len)[-1:]]
            taken = (lease.take(size_bytes) for lease in self._leases)
            return next((block for block in taken if block is not None), None)


def _has_own_places(matrix: NDArray[Any]) -> bool:
    """Whether strides are positive and no elements overlap, as the service requires it."""
    reach = matrix.itemsize
    for stride, count in sorted(zip(matrix.strides, matrix.shape, strict=True)):
        if count > 1:
            if stride < reach or stride % matrix.itemsize:
                return False
            reach += stride * (count - 1)
    return True


class Lease(mmap.mmap):
    """Shared memory of the service; it goes back when nothing refers to it or its ranges.

    Attributes:
        id: Its id, which products name.
        address: Address of its first byte in this process.
    """

    id: str
    address: int
    _connection: socket.socket
    _taken: list[tuple[int, int, weakref.ref[Any]]]  # first byte, end, who has it; in order

    def __new__(
        cls, file: int, size_bytes: int, *, lease_id: str, connection: socket.socket
    ) -> Self:
        """Map the memory of a file. It is the service's when the connection is closed."""
        lease = super().__new__(cls, file, size_bytes)
        lease.id, lease._connection = lease_id, connection
        lease.address = ctypes.addressof(ctypes.c_uint8.from_buffer(lease))
        lease._taken = []
        return lease

    def __del__(self) -> None:
        self._connection.close()

    def take(self, size_bytes: int) -> Any:
        """The first range that is free and long enough, or None."""
        offset = 0
        for index, (begin, end, _) in enumerate([*self._taken, (len(self), 0, None)]):
            if begin - offset >= size_bytes:
                block = (ctypes.c_uint8 * size_bytes).from_buffer(self, offset)
                self._taken.insert(index, (offset, offset + size_bytes, weakref.ref(block)))
                return block
            offset = end
        return None

    def is_used(self) -> bool:
        """Whether something refers to a range; the others are free from now on."""
        self._taken = [taken for taken in self._taken if taken[2]() is not None]
        return bool(self._taken)


def open_lease(calls: Calls, size_bytes: int) -> Lease:
    """Ask the service for memory, and map it.

    Raises:
        ServiceRefused: It has no leases, or no room for this one.
        ServiceUnreachable: The service's socket for leases does not answer as it should.
    """
    body = make_json_body({"bytes": size_bytes})
    grant = calls.ask(Request("POST", "/v1/leases", body=body))
    try:
        connection = connect_unix(grant["socket"], kind=socket.SOCK_SEQPACKET)
        try:
            _check_peer(connection)
            connection.send(grant["token"].encode())
            connection.settimeout(_ANSWER_SECONDS)
            return _receive(connection, grant)
        except BaseException:
            connection.close()
            raise
    except (OSError, ValueError) as error:
        raise ServiceUnreachable(calls.address.url, f"it hands no lease out: {error}") from error


def _check_peer(connection: socket.socket) -> None:
    """Make sure that the service is this user's, or the system's."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(packed)
    if os.geteuid() not in (0, user) and user != 0:
        raise ValueError(f"user is {user}; it must be {os.geteuid()} or 0")


def _receive(connection: socket.socket, grant: dict[str, Any]) -> Lease:
    packet, files, flags, _ = socket.recv_fds(connection, _ANSWER_BYTES, 1)
    try:
        answer = json.loads(packet) if packet else {}
        if flags & socket.MSG_CTRUNC or len(files) != 1:
            raise ValueError(f"{len(files)} descriptors came; it must be 1 ({answer})")
        size_bytes = int(grant["bytes"])
        _check_memory(files[0], size_bytes)
        return Lease(files[0], size_bytes, lease_id=grant["id"], connection=connection)
    finally:
        for file in files:
            os.close(file)


def _check_memory(file: int, size_bytes: int) -> None:
    """Make sure that the memory is as long as it should be and sealed: nobody can shorten it.

    Reading memory that was cut off would crash this process.
    """
    seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    missing = [name for name in _SEALS if not seals & getattr(fcntl, name)]
    found_bytes = os.fstat(file).st_size
    if missing or found_bytes < size_bytes:
        raise ValueError(f"the memory lacks {missing}, or has {found_bytes} of {size_bytes} bytes")
