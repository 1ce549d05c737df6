"""Callers that stall, trickle, vanish and half-close, among callers that behave."""

import json
import socket
import threading
import time

import numpy as np

from tests.faults.fault import Fault
from tests.server import encode_npy
from tests.service.api.wire.wire_server import make_head, read_answer


class BadCallers(Fault):
    """Some of each kind at once."""

    told = "callers stall in a head and a body, trickle, vanish and half-close"

    def strike(self, chance):
        content = encode_npy(np.ones((300, 300)))
        head = make_head("/v1/matrices", len(content))
        product = make_head("/v1/matmul", 2 * len(content)) + 2 * content
        stalled = [self._send(head[:30]), self._send(head + content[:5000])]
        trickle = threading.Thread(target=self._trickle, args=(self._send(head), content[:30]))
        trickle.start()
        for sent in (head + content[:-1], product):
            vanishing = self._send(sent)
            time.sleep(chance.uniform(0, 0.1))
            vanishing.close()
        self._half_close()
        trickle.join()
        for connection in stalled:
            connection.close()

    def _send(self, content):
        connection = self.server.connect()
        connection.sendall(content)
        return connection

    def _trickle(self, connection, content):
        with connection:
            for byte in content:
                connection.sendall(bytes([byte]))
                time.sleep(0.02)

    def _half_close(self):
        """Post a job and say no more: the answer comes."""
        operand, matrix = next(iter(self.ledger.operands.items()))
        body = json.dumps({"a": operand, "b": operand}).encode()
        head = make_head("/v1/jobs", len(body), content_type="application/json")
        with self._send(head + body) as connection:
            connection.shutdown(socket.SHUT_WR)
            status, answer = read_answer(connection)
            if status != 202:
                self.ledger.note("unexplained", f"a half-closed caller got {status}: {answer!r}")
                return
            self.ledger.add_job(json.loads(answer)["id"], (matrix @ matrix).astype(matrix.dtype))
