"""A lease: memory that this process and a service on the same host share."""

import array
import bisect
import ctypes
import fcntl
import json
import mmap
import os
import socket
import struct
from typing import Any, Final

from ..errors import ServiceUnreachable
from ..wire.address import connect_unix
from ..wire.calls import Calls, make_json_body
from ..wire.connection import Request

_ANSWER_BYTES: Final = 4096
_ANSWER_SECONDS: Final = 10.0
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group
_SEALS: Final = ("F_SEAL_SHRINK", "F_SEAL_GROW")


class Lease:
    """Shared memory that belongs to the service until the connection is closed.

    Attributes:
        id: Its id, which products name.
        size_bytes: Its length.
        memory: The mapping, which ends with the last array in it.
        address: Address of its first byte in this process.
    """

    def __init__(self, lease_id: str, connection: socket.socket, memory: mmap.mmap) -> None:
        self.id = lease_id
        self.size_bytes = len(memory)
        self.memory = memory
        self.address = ctypes.addressof(ctypes.c_uint8.from_buffer(memory))
        self._taken: list[tuple[int, int]] = []  # first byte and end of each range, in order
        self._connection = connection

    def take(self, size_bytes: int) -> int | None:
        """Take the first range that is free and long enough; returns its offset, or None."""
        offset = 0
        for begin, end in [*self._taken, (self.size_bytes, 0)]:
            if begin - offset >= size_bytes:
                bisect.insort(self._taken, (offset, offset + size_bytes))
                return offset
            offset = end
        return None

    def give(self, offset: int, size_bytes: int) -> None:
        """Give a range back."""
        self._taken.remove((offset, offset + size_bytes))

    @property
    def is_used(self) -> bool:
        """Whether a range is taken."""
        return bool(self._taken)

    def close(self) -> None:
        """Give the memory back to the service; nobody may use it afterwards."""
        self._connection.close()


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
        raise ServiceUnreachable(calls.url, f"it hands no lease out: {error}") from error


def _check_peer(connection: socket.socket) -> None:
    """Make sure that the service is this user's, or the system's.

    Raises:
        ValueError: It is not.
    """
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(packed)
    if os.geteuid() not in (0, user) and user != 0:
        raise ValueError(f"user is {user}; it must be {os.geteuid()} or 0")


def _receive(connection: socket.socket, grant: dict[str, Any]) -> Lease:
    room = socket.CMSG_SPACE(array.array("i").itemsize)
    packet, ancillary, flags, _ = connection.recvmsg(_ANSWER_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    files = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    try:
        answer = json.loads(packet) if packet else {}
        if flags & socket.MSG_CTRUNC or len(files) != 1:
            raise ValueError(f"{len(files)} descriptors came; it must be 1 ({answer})")
        size_bytes = int(grant["bytes"])
        _check_memory(files[0], size_bytes)
        return Lease(grant["id"], connection, mmap.mmap(files[0], size_bytes))
    finally:
        for file in files:
            os.close(file)


def _check_memory(file: int, size_bytes: int) -> None:
    """Make sure that the memory is as long as it should be and sealed: nobody can shorten it.

    Reading memory that was cut off would crash this process.

    Raises:
        ValueError: It is not.
    """
    seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    missing = [name for name in _SEALS if not seals & getattr(fcntl, name)]
    found_bytes = os.fstat(file).st_size
    if missing or found_bytes < size_bytes:
        raise ValueError(f"the memory lacks {missing}, or has {found_bytes} of {size_bytes} bytes")
