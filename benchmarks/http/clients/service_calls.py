"""Calls of the service with JSON, over one connection."""

import json
import time
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.http.clients.connection import connect

TIMEOUT_SECONDS: Final = 600.0
WAITING: Final = "wait_seconds=30"
"""The query that lets a GET wait for the end of a job."""


class CallFailed(Exception):
    """The service refused a call, or a job failed; the message quotes its answer."""


class ServiceCalls:
    """A connection to the service; a context manager.

    Args:
        at: Its port on loopback, or the path of its Unix socket.
    """

    def __init__(self, at: int | str) -> None:
        self._address = ("127.0.0.1", at) if isinstance(at, int) else at
        self._connection = HTTPConnection("localhost")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call; it connects again if the connection was closed.

        Raises:
            CallFailed: It was refused.
            OSError: The service does not answer.
        """
        content = None if body is None else json.dumps(body).encode()
        fields = {} if body is None else {"Content-Type": "application/json"}
        for attempt in range(2):
            try:
                if self._connection.sock is None:
                    self._connection.sock = connect(self._address)
                    self._connection.sock.settimeout(TIMEOUT_SECONDS)
                self._connection.request(method, path, content, fields)
                response = self._connection.getresponse()
                break
            except (HTTPException, ConnectionError):
                self._connection.close()
                if attempt:
                    raise
        answer = response.read()
        if response.status >= 400:
            raise CallFailed(f"{method} {path}: {response.status} {answer[:1000]!r}")
        return json.loads(answer) if answer else None

    def run_job(self, **request: Any) -> tuple[dict[str, Any], float]:
        """Post a job and wait until it has succeeded.

        Returns:
            The job, and the seconds from its accepted POST until its end was known.

        Raises:
            CallFailed: It was refused, or did not succeed.
            OSError: The service does not answer.
        """
        job: dict[str, Any] = self.call("POST", "/v1/jobs", request)
        accepted = time.perf_counter()
        while job["state"] in {"queued", "running"}:
            job = self.call("GET", f"/v1/jobs/{job['id']}?{WAITING}")
        seconds = time.perf_counter() - accepted
        if job["state"] != "succeeded":
            raise CallFailed(f"job {job['id']}: {job['state']}, {job['error']}")
        return job, seconds
