"""Calls of the service with JSON, over one connection."""

import json
import time
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Any, Final, Self

TIMEOUT_SECONDS: Final = 600.0
POLL_SECONDS: Final = 0.001
WAIT_SECONDS: Final = 30


class CallFailed(Exception):
    """The service refused a call, or a job failed; the message quotes its answer."""


class ServiceCalls:
    """A connection to the service; a context manager.

    Args:
        port: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        self._api: dict[str, Any] = self.call("GET", "/openapi.json")
        self.wait_name = self._find_wait()

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
        """One call; a connection that has been closed meanwhile is opened anew.

        Raises:
            CallFailed: It was refused.
            OSError: The service does not answer.
        """
        content = None if body is None else json.dumps(body).encode()
        fields = {} if body is None else {"Content-Type": "application/json"}
        for attempt in range(2):
            try:
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
            The job, and the seconds from its accepted POST until we knew.

        Raises:
            CallFailed: It was refused, or did not succeed.
            OSError: The service does not answer.
        """
        job: dict[str, Any] = self.call("POST", "/v1/jobs", request)
        accepted = time.perf_counter()
        ask = f"?{self.wait_name}={WAIT_SECONDS}" if self.wait_name else ""
        while job["state"] in {"queued", "running"}:
            if not self.wait_name:
                time.sleep(POLL_SECONDS)
            job = self.call("GET", f"/v1/jobs/{job['id']}{ask}")
        seconds = time.perf_counter() - accepted
        if job["state"] != "succeeded":
            raise CallFailed(f"job {job['id']}: {job['state']}, {job['error']}")
        return job, seconds

    @property
    def waiting(self) -> str:
        """How the end of a job is noticed."""
        if self.wait_name:
            return f"GET with {self.wait_name}={WAIT_SECONDS}"
        return f"GET every {1e3 * POLL_SECONDS:g} ms"

    def find_memory_option(self) -> dict[str, str] | None:
        """What a job is posted with so that its result stays in memory; None: it cannot."""
        schemas = self._api["components"]["schemas"]
        for name, schema in schemas.get("JobRequest", {}).get("properties", {}).items():
            if "memory" in _list_choices(schema, schemas):
                return {name: "memory"}
        return None

    def _find_wait(self) -> str | None:
        path = self._api["paths"].get("/v1/jobs/{job_id}", {})
        names = (one["name"] for one in path.get("get", {}).get("parameters", ()))
        return next((name for name in names if "wait" in name), None)


def _list_choices(schema: Any, schemas: dict[str, Any]) -> list[Any]:
    """All values that a schema or one of its alternatives names."""
    if not isinstance(schema, dict):
        return []
    if "$ref" in schema:
        return _list_choices(schemas.get(schema["$ref"].rpartition("/")[2]), schemas)
    found = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    for key in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(key, ()):
            found += _list_choices(one, schemas)
    return found
