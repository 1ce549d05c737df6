"""The HTTP side of the client: requests, their repetition, and what an answer means."""

import ipaddress
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from wavetrim.service.client_errors import ServiceBusy, ServiceRefused, ServiceUnreachable

_TRIES: Final = 3


class Connection:
    """Calls one service and turns its problems into errors.

    Args:
        url: Where the service is.
        api_key: Bearer token, where the service asks for one.
        timeout_seconds: Longest silence of the service within one call.

    Raises:
        ValueError: `url` is not an http or https address.
    """

    def __init__(self, url: str, *, api_key: str | None, timeout_seconds: float) -> None:
        host = urlsplit(url).hostname
        if urlsplit(url).scheme not in ("http", "https") or not host:
            raise ValueError(f"url is {url!r}; it must begin with http:// or https:// and a host")
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(timeout_seconds, connect=10.0),
            trust_env=not _is_loopback(host),  # a proxy does not lead back to this machine
        )

    def close(self) -> None:
        """Close the sockets."""
        self._http.close()

    def ask(self, method: str, path: str, **request: Any) -> Any:
        """The JSON that a call answers; arguments and errors as `call` has them."""
        response = self.call(method, path, **request)
        try:
            return response.json()
        except ValueError as error:
            reason = f"its answer is not JSON but {response.text[:60]!r}"
            raise ServiceUnreachable(self.url, reason) from error

    def call(
        self, method: str, path: str, *, stream: bool = False, tries: int = _TRIES, **request: Any
    ) -> httpx.Response:
        """Send a request.

        Args:
            method: HTTP method.
            path: Path below the service's URL.
            stream: Leave the body to be read by the caller, who closes the response.
            tries: How often a request is sent whose connection breaks; 1 where it must not be
                repeated.
            request: What httpx takes for a request.

        Raises:
            ServiceUnreachable: There was no answer.
            ServiceBusy: The service takes no work now.
            ServiceRefused: It answered with another problem.
        """
        for left in reversed(range(tries)):
            try:
                message = self._http.build_request(method, path, **request)
                response = self._http.send(message, stream=stream)
                break
            except httpx.ConnectError as error:
                raise ServiceUnreachable(self.url, error) from error
            except httpx.TransportError as error:
                if not left:
                    raise ServiceUnreachable(self.url, error) from error
        if response.is_error:
            response.read()
            response.close()
            raise _judge(response)
        return response


def _judge(response: httpx.Response) -> ServiceRefused:
    """The error that an answer stands for."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"title": response.reason_phrase, "detail": response.text[:200]}
    if response.status_code in (429, 503):
        after = response.headers.get("Retry-After", "")
        seconds = float(after) if after.isdecimal() else None
        return ServiceBusy(response.status_code, problem, seconds)
    return ServiceRefused(response.status_code, problem)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
