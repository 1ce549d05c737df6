"""Hostile bytes on a real service's sockets: cut, pipelined, mutated, conflicting, foreign.

    python -m tests.fuzz.wire [--seconds 600] [--seed 1] [--case 123]

Each connection is drawn from the seed and its number, so a fault is repeated by `--seed` and
`--case`. Every answer must be a well-formed one with a status that is documented, or none but the
connection's end, in time; well-formed requests get the answer that they must have, in order; and
what lies in a body is never taken for a request.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import sys
import time
from collections import Counter

from tests.fuzz.answers import split_answers
from tests.fuzz.fault import Fault, run_fuzzer
from tests.fuzz.framing import find_requests
from tests.fuzz.watched import ANSWER_SECONDS, NEVER, WatchedService
from tests.fuzz.wire_cases import MAYBE, draw_case
from tests.service.api.wire.wire_server import make_context

_CONNECTIONS = 16
"""So many are open at once."""

_CONTROL_SECONDS = 3.0
_SHOWN_SECONDS = 60.0
_SLOW_SECONDS = 0.004
_RESET = struct.pack("ii", 1, 0)


class WireFuzzer:
    """Draws connections from the seed and their numbers, and judges what comes back."""

    def __init__(self, service, seed, draw=draw_case):
        self._service = service
        self._seed = seed
        self._draw = draw
        self._next = 0
        self.ways = Counter()

    async def run(self, seconds):
        """Open connections for some time.

        Raises:
            Fault: The service has one.
        """
        end = time.monotonic() + seconds
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._control(end))
                for _ in range(_CONNECTIONS):
                    group.create_task(self._go_on(end))
        except* Fault as faults:
            first = faults.exceptions[0]
        else:
            return
        raise first

    async def try_case(self, number):
        """Open one connection, and judge what comes back.

        Raises:
            Fault: It is not as it must be; names seed and number.
        """
        case = self._draw(self._seed, number, self._service.matrices)
        received = bytearray()
        try:
            if case.way == "lease":
                await self._ask_lease(case)
            else:
                await self._converse(case, received)
                judge(case, bytes(received))
        except Fault as fault:
            told = f"{fault}\nrepeat it: --seed {self._seed} --case {number}\n{show(case)}"
            raise Fault(f"{told}\nreceived: {_shorten(bytes(received))}") from None
        self.ways[case.way] += 1

    async def _go_on(self, end):
        while time.monotonic() < end:
            self._next += 1
            await self.try_case(self._next)

    async def _control(self, end):
        shown = time.monotonic()
        while time.monotonic() < end:
            await asyncio.sleep(min(_CONTROL_SECONDS, max(0.0, end - time.monotonic())))
            await asyncio.to_thread(self._service.check_now)
            await asyncio.to_thread(self._service.forget_matrices)
            if time.monotonic() - shown > _SHOWN_SECONDS:
                shown = time.monotonic()
                held = await asyncio.to_thread(self._service.look)
                print(f"{self._next} connections: {held}", flush=True)

    async def _converse(self, case, received):
        """Sends a case, and receives until the connection ends."""
        reader, writer = await self._connect(case)
        sending = asyncio.create_task(_send(writer, case))
        try:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    if case.end == "reset":
                        await sending
                        return
                    while chunk := await reader.read(2**16):
                        received += chunk
                        await asyncio.sleep(_SLOW_SECONDS if case.reads_slowly else 0)
        except TimeoutError:
            raise Fault(f"the connection is open after {ANSWER_SECONDS:g} s") from None
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            writer.transport.abort()

    async def _connect(self, case):
        limit = 2**12 if case.reads_slowly else 2**16
        if case.way == "unix":
            return await asyncio.open_unix_connection(self._service.unix_socket, limit=limit)
        context = make_context() if case.way == "tls" else None
        port = self._service.server.port
        return await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=limit)

    async def _ask_lease(self, case):
        """Sends packets to the socket of the leases, and receives until the connection ends."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.setblocking(False)
            connection.connect(f"{self._service.unix_socket}.leases")
            try:
                with contextlib.suppress(ConnectionError):
                    for packet in case.pieces:
                        _send_packet(connection, packet)
                    if case.end == "reset":
                        return
                    connection.shutdown(socket.SHUT_WR)
                    async with asyncio.timeout(ANSWER_SECONDS):
                        while await asyncio.get_running_loop().sock_recv(connection, 2**16):
                            pass
            except TimeoutError:
                raise Fault(f"the connection is open after {ANSWER_SECONDS:g} s") from None


async def _send(writer, case):
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        for piece, pause in zip(case.pieces, case.pauses, strict=True):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if case.end == "half-close":
            writer.write_eof()
        elif case.end == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _send_packet(connection, packet):
    """Every other packet brings descriptors along, which nobody asked for."""
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(packet[0] % 2 * 3)]
    try:
        socket.send_fds(connection, [packet], files)
    finally:
        for file in files:
            os.close(file)


def judge(case, received):
    """Make sure that what came back is what may come back.

    Raises:
        Fault: It is not.
    """
    requests = {request.id: request for request in case.requests or ()}

    def is_head(identity):
        return identity in requests and requests[identity].method == "HEAD"

    answers, rest = split_answers(received, is_head)
    for answer in answers:
        if answer.request.startswith(NEVER):
            raise Fault("a part of a body was taken for a request")
    if case.requests is not None:
        if rest:
            raise Fault(f"an answer was broken off: {rest[:300]!r}")
        _judge_valid(case.requests, answers)
    taken = {answer.request for answer in answers if answer.request.startswith(MAYBE)}
    if surplus := taken - find_requests(case.content):
        raise Fault(f"{surplus} was taken for a request, and is none by its framing")


def _judge_valid(requests, answers):
    for request, answer in zip(requests, answers, strict=False):
        if answer.request != request.id:
            raise Fault(f"the answer to {request.id} is that to {answer.request!r}: {answer}")
        if answer.status not in request.statuses:
            raise Fault(f"{request.id} was answered with {answer}, not {set(request.statuses)}")
        if answer.status in (200, 206) and not request.is_right(answer.body):
            raise Fault(f"{request.id} has a wrong answer: {answer.body[:500]!r}")
        if answer.closes:
            return
    if len(answers) != len(requests):
        raise Fault(f"{len(requests)} requests have {len(answers)} answers")


def show(case):
    pieces = "\n".join(f"  {_shorten(piece)}" for piece in case.pieces[:20])
    return f"{case.way}, {len(case.pieces)} pieces, then {case.end}:\n{pieces}"


def _shorten(content, length=700):
    if len(content) <= length:
        return repr(content)
    return f"{content[: length // 2]!r} … {len(content) - length} … {content[-length // 2 :]!r}"


def fuzz(seconds, seed, case):
    print(f"seed {seed}", flush=True)
    with WatchedService() as service:
        fuzzer = WireFuzzer(service, seed)
        asyncio.run(fuzzer.run(seconds) if case is None else fuzzer.try_case(case))
        told = ", ".join(f"{count} over {way}" for way, count in fuzzer.ways.items())
        print(f"connections: {told}\nanswers by status: {service.count_answers()}", flush=True)


def main():
    case = {"type": int, "help": "only the connection of this number"}
    return run_fuzzer(__doc__, fuzz, case=case)


if __name__ == "__main__":
    sys.exit(main())
