"""A caller of leases without our client: sockets, mmap and NumPy, as any language has them."""

import array
import json
import mmap
import os
import socket

import numpy as np


def fetch_descriptor(path, token):
    """Ask for a descriptor; returns the connection, the answer, and the descriptor."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(20)
    connection.connect(path)
    connection.send(token.encode())
    room = socket.CMSG_SPACE(array.array("i").itemsize)
    packet, ancillary, flags, _ = connection.recvmsg(4096, room, socket.MSG_CMSG_CLOEXEC)
    assert not flags & socket.MSG_CTRUNC
    files = array.array("i")
    for level, kind, data in ancillary:
        assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        files.frombytes(data)
    answer = json.loads(packet) if packet else {}
    return connection, answer, files[0] if files else None


class Lease:
    """A lease and its memory until the block ends, for a client of the Unix socket."""

    def __init__(self, client, size_bytes):
        answer = client.post("/v1/leases", json={"bytes": size_bytes})
        assert answer.status_code == 201, answer.text
        self.grant = answer.json()
        self.id = self.grant["id"]
        connection, told, fd = fetch_descriptor(self.grant["socket"], self.grant["token"])
        assert told == {"id": self.id, "bytes": self.grant["bytes"]}
        self.connection, self.fd = connection, fd
        self.memory = np.frombuffer(mmap.mmap(fd, self.grant["bytes"]), np.uint8)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        os.close(self.fd)

    def place(self, offset_bytes, shape, dtype="float64", strides_bytes=None):
        """A matrix in the lease, and how a product names it."""
        named = {
            "lease": self.id, "offset_bytes": offset_bytes, "shape": shape, "dtype": dtype
        }  # fmt: skip
        if strides_bytes is not None:
            named["strides_bytes"] = strides_bytes
        matrix = np.ndarray(shape, dtype, self.memory, offset_bytes, strides=strides_bytes)
        return matrix, named
