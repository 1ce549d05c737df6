"""Who may call /v1: with an API key, whoever has it; without one, whoever is on this machine."""

import hmac
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from wavetrim.service.errors import HostRefused, Unauthorized
from wavetrim.service.settings import Settings

bearer: Final = HTTPBearer(auto_error=False, description="The API key, where the service has one.")
"""FastAPI's dependency of every /v1 call: it describes in the OpenAPI document what `check_access`
has looked at, before any byte of a body was taken."""


def check_access(headers: Headers, settings: Settings) -> None:
    """Make sure that a call may be made.

    Without an API key the service listens on loopback only, and the call must name it so: a web
    page that rebinds its own host name to 127.0.0.1 is refused.

    Raises:
        Unauthorized: The service has an API key, and the call does not have it.
        HostRefused: The service has none, and the Host header names another machine.
    """
    if settings.api_key is None:
        host = headers.get("host", "")
        if not _names_loopback(host, settings.host):
            raise HostRefused("Host", host, f"localhost, a loopback address or {settings.host}")
        return
    scheme, _, sent = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not sent:
        raise Unauthorized("the call needs the header Authorization: Bearer <API key>")
    # Header values are decoded as Latin-1; the key's own bytes are compared.
    key = settings.api_key.get_secret_value().encode()
    if not hmac.compare_digest(sent.encode("latin-1", "replace"), key):
        raise Unauthorized("the API key is not the service's")


@lru_cache(maxsize=64)
def _names_loopback(host: str, own_name: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in ("localhost", own_name.lower()) or ip_address(name).is_loopback
    except ValueError:
        return False
