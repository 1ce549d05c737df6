"""Who may call /v1: with an API key, whoever has it; without one, whoever is on this machine."""

import hmac
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from wavetrim.service.errors import HostRefused, Unauthorized
from wavetrim.service.settings import Settings

_bearer = HTTPBearer(auto_error=False, description="The API key, where the service has one.")


def require_access(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> None:
    """FastAPI's dependency of every /v1 call.

    Without an API key the service listens on loopback only, and the call must name it so: a web
    page that rebinds its own host name to 127.0.0.1 is refused.

    Raises:
        Unauthorized: The service has an API key, and the call does not have it.
        HostRefused: The service has none, and the Host header names another machine.
    """
    settings: Settings = request.app.state.settings
    if settings.api_key is None:
        host = request.headers.get("host", "")
        if not _names_loopback(host, settings.host):
            raise HostRefused("Host", host, f"localhost, a loopback address or {settings.host}")
        return
    if credentials is None:
        raise Unauthorized("the call needs the header Authorization: Bearer <API key>")
    # Header values are decoded as Latin-1; the key's own bytes are compared.
    sent = credentials.credentials.encode("latin-1", "replace")
    if not hmac.compare_digest(sent, settings.api_key.get_secret_value().encode()):
        raise Unauthorized("the API key is not the service's")


def _names_loopback(host: str, own_name: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in ("localhost", own_name.lower()) or ip_address(name).is_loopback
    except ValueError:
        return False
