"""A minimal file server, the floor of uploads and downloads.

`python -m benchmarks.http.servers.sink --port 8000 --folder FOLDER`. `POST /` takes a .npy file
with a header of 128 bytes. The header gets a block of its own. The elements are written past the
page cache in pieces of 4 MiB, each while the next ones arrive. Then file and folder are synced, and
the answer is 201. `GET /N` sends N bytes out of memory with one sendall. One connection at a time.
"""

import argparse
import contextlib
import queue
import socket
import threading
from pathlib import Path
from typing import Final

from benchmarks.http.clients.message import HEAD_END, NPY_HEADER_BYTES
from benchmarks.http.disk import BLOCK_BYTES, PIECE_BYTES, make_piece, open_direct, write_piece
from benchmarks.http.servers.floor import receive

_PIECES: Final = 4
_HEAD_BYTES: Final = 2**16


class Sink:
    """Receives and sends; keeps its memory from one request to the next."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sink.npy"
        self._pieces = [make_piece() for _ in range(_PIECES)]
        self._sent = b""

    def serve(self, connection: socket.socket) -> None:
        """Answer requests until the client leaves."""
        head = bytearray(_HEAD_BYTES)
        while True:
            received, end = 0, -1
            while end < 0:
                received += receive(connection, memoryview(head)[received:])
                end = head.find(HEAD_END, 0, received)
            words = bytes(head[:end])
            if words.startswith(b"GET /"):
                self._send(connection, int(words[5 : words.index(b" HTTP")]))
            else:
                begun = bytes(head[end + len(HEAD_END) : received])
                self._store(connection, begun, int(words[words.rindex(b":") + 1 :]))

    def _send(self, connection: socket.socket, size_bytes: int) -> None:
        if len(self._sent) != size_bytes:
            block = bytes(range(256)) * 4096
            self._sent = (block * (size_bytes // len(block) + 1))[:size_bytes]
        connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {size_bytes}\r\n\r\n".encode())
        connection.sendall(self._sent)

    def _store(self, connection: socket.socket, begun: bytes, size_bytes: int) -> None:
        while len(begun) < NPY_HEADER_BYTES:
            begun += connection.recv(NPY_HEADER_BYTES - len(begun))
        with open_direct(self._path) as file:
            block = self._pieces[0][:BLOCK_BYTES]
            block[:NPY_HEADER_BYTES] = begun[:NPY_HEADER_BYTES]
            write_piece(file, block, BLOCK_BYTES, 0)
            begun = begun[NPY_HEADER_BYTES:]
            self._store_elements(connection, file, begun, size_bytes - NPY_HEADER_BYTES)
        connection.sendall(b"HTTP/1.1 201 Created\r\ncontent-length: 0" + HEAD_END)

    def _store_elements(
        self, connection: socket.socket, file: int, begun: bytes, size_bytes: int
    ) -> None:
        """Receive piece after piece, while a thread writes those that are full."""
        free: queue.Queue[memoryview] = queue.Queue()
        full: queue.Queue[tuple[memoryview, int, int] | None] = queue.Queue()
        for piece in self._pieces:
            free.put(piece)

        def write_full() -> None:
            while (entry := full.get()) is not None:
                write_piece(file, *entry)
                free.put(entry[0])

        writer = threading.Thread(target=write_full)
        writer.start()
        try:
            for offset in range(0, size_bytes, PIECE_BYTES):
                piece, length = free.get(), min(PIECE_BYTES, size_bytes - offset)
                piece[: len(begun)] = begun
                count, begun = len(begun), b""
                while count < length:
                    count += receive(connection, piece[count:length])
                full.put((piece, length, BLOCK_BYTES + offset))
        finally:
            full.put(None)
            writer.join()


def main() -> None:
    """Listen and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    sink = Sink(arguments.folder)
    with socket.create_server(("127.0.0.1", arguments.port)) as listener:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, contextlib.suppress(OSError):
                sink.serve(connection)


if __name__ == "__main__":
    main()
