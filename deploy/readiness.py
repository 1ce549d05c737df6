"""Waiting for a service that another process runs."""

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable


def find_free_port() -> int:
    """A port on loopback that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until_ready(
    url: str,
    *,
    is_running: Callable[[], bool],
    timeout_seconds: float = 60.0,
    path: str = "/healthz/ready",
) -> None:
    """Returns once `GET` of a path answers 200.

    Args:
        url: Where the service listens, without a path.
        is_running: False once its process has ended, which ends the wait.
        timeout_seconds: How long to wait.
        path: The path.

    Raises:
        SystemExit: The service ended, or did not become ready in time.
    """
    deadline = time.monotonic() + timeout_seconds
    answer = "nothing"
    while time.monotonic() < deadline:
        if not is_running():
            raise SystemExit(f"{url}: the service ended before it was ready")
        try:
            with urllib.request.urlopen(f"{url}{path}", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            answer = str(error)
        time.sleep(0.1)
    raise SystemExit(f"{url}: not ready after {timeout_seconds:g} s; the last answer: {answer}")
