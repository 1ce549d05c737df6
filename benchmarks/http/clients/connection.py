"""A client's connection: sends requests made before, receives into memory made before."""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.http.clients.message import CLOSES, HEAD_END, AnswerHead, read_head
from benchmarks.http.clients.product import WrongAnswer

Address = tuple[str, int] | str
"""Host and port, or the path of a Unix socket."""

Check = Callable[[memoryview], None]
"""Raises WrongAnswer if the elements of an answer are wrong."""

Find = Callable[[bytearray, int], AnswerHead | None]
"""Finds the head of an answer that is arriving; None while it is not complete."""

REFUSALS: Final = frozenset({429, 503})
TIMEOUT_SECONDS: Final = 120.0
_HEAD_BYTES: Final = 2**16
"""Room for an answer's head, or for a whole refusal."""

_ANSWERED: Final = b"HTTP/1.1 200"
_TIME: Final = struct.Struct("ll")  # seconds, microseconds


@dataclass(slots=True, eq=False)
class Call:
    """A request, and what its answer must be.

    Attributes:
        request: All of its bytes.
        answer_bytes: Bytes of the elements at the end of the answer.
        row_bytes: Bytes of a row of elements.
        check_rows: Checks first and last row.
        check_whole: Checks all of it.
    """

    request: bytearray
    answer_bytes: int
    row_bytes: int
    check_rows: Check
    check_whole: Check
    _ends: tuple[bytearray, bytearray] | None = None

    def check(self, answer: bytearray, total: int) -> None:
        """Check length, first and last row of an answer; rows equal to the last right ones pass.

        Raises:
            WrongAnswer: It is not the answer to this request.
        """
        start = total - self.answer_bytes
        first = answer[start : start + self.row_bytes]
        last = answer[total - self.row_bytes : total]
        if self._ends != (first, last):
            self.check_rows(memoryview(answer)[start:total])
            self._ends = (first, last)


class Connection:
    """One connection and the answer that it received last.

    Args:
        address: The server's address.
        call: The first request; all answers are as long as its answer.

    Attributes:
        call: The current request, or the last one.
        answer: Memory of the answer.
        view: The same memory.
        socket: The connected socket.
    """

    def __init__(self, address: Address, call: Call) -> None:
        self.call = call
        self.answer = bytearray(call.answer_bytes + _HEAD_BYTES)
        np.frombuffer(self.answer, np.uint8).fill(1)  # no page is made while the clock runs
        self.view = memoryview(self.answer)
        self.socket = connect(address)
        self._address = address
        self._total = 0
        self._heads: dict[tuple[int, int], AnswerHead] = {}

    def exchange(self, call: Call) -> AnswerHead:
        """Send a request and receive the whole answer."""
        self.call = call
        self.socket.sendall(call.request)
        return receive_answer(self.socket, self.answer, self.find_head)

    def find_head(self, answer: bytearray, received: int) -> AnswerHead | None:
        """As the function, but a head that must be equal to an earlier one is not read again.

        It has the same length, begins an answer of the same length, has status 200 and does not
        close. Reading it would cost more than all else that the client does in Python.
        """
        lengths = answer.find(HEAD_END, 0, received), received
        head = self._heads.get(lengths)
        if (
            head is None
            or not answer.startswith(_ANSWERED)
            or answer.find(CLOSES, 0, lengths[0]) > 0
        ):
            head = find_head(answer, received)
            if head and (head.status, head.total_bytes, head.closes) == (200, received, False):
                self._heads[lengths] = head
        return head

    def accept(self, head: AnswerHead) -> bool:
        """Check a complete answer; connect again if the server closes the connection.

        Returns:
            Whether the request was answered; False if it was refused for now.

        Raises:
            WrongAnswer: The answer is neither the product nor such a refusal.
        """
        if head.status == 200:
            if head.body_bytes < self.call.answer_bytes:
                raise WrongAnswer(f"{head.body_bytes} bytes; the product has more")
            self.call.check(self.answer, head.total_bytes)
            self._total = head.total_bytes
        elif head.status not in REFUSALS:
            body = bytes(self.answer[head.head_bytes : min(head.total_bytes, 1000)])
            raise WrongAnswer(f"status {head.status}: {body!r}")
        if head.closes:
            self.socket.close()
            self.socket = connect(self._address)
        return head.status == 200

    def check_last(self) -> None:
        """Check all of the last answer."""
        if self._total:
            self.call.check_whole(self.view[self._total - self.call.answer_bytes : self._total])

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def receive_answer(
    connection: socket.socket, answer: bytearray, find: Find | None = None
) -> AnswerHead:
    """Receive a whole answer from a blocking socket.

    Raises:
        OSError: The server has closed the connection, or is silent for too long.
        AnswerMalformed: The answer is no HTTP.
        WrongAnswer: It is longer than the memory for it.
    """
    view = memoryview(answer)
    received, head = 0, None
    while head is None or received < head.total_bytes:
        count = connection.recv_into(view[received:])
        if count == 0:
            raise ConnectionResetError("the server has closed the connection")
        received += count
        head = head or (find or find_head)(answer, received)
    return head


def find_head(answer: bytearray, received: int) -> AnswerHead | None:
    """The head of an answer that is arriving; None while it is not complete."""
    head = read_head(answer, received)
    if head is not None and head.total_bytes > len(answer):
        raise WrongAnswer(f"an answer of {head.body_bytes} bytes, status {head.status}")
    return head


def connect(address: Address) -> socket.socket:
    """A connected, blocking socket.

    Raises:
        OSError: Nobody listens there.
    """
    if not isinstance(address, str):
        connected = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected
    connected = socket.socket(socket.AF_UNIX)
    try:
        # Only a blocking socket waits for a place in the listener's queue.
        limit = _TIME.pack(round(TIMEOUT_SECONDS), 0)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        connected.connect(address)
        connected.settimeout(TIMEOUT_SECONDS)
    except OSError:
        connected.close()
        raise
    return connected
