"""Who may call /v1: whoever has the API key, where the service has one.

Without one only this machine reaches it, under loopback's names (`host_check.py`).
"""

import hmac
from typing import Final

from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from wavetrim.service.errors import Unauthorized
from wavetrim.service.settings import Settings

bearer: Final = HTTPBearer(auto_error=False, description="The API key, where the service has one.")
"""FastAPI's dependency of every /v1 call: it describes in the OpenAPI document what `check_access`
has looked at, before any byte of a body was taken."""


def check_access(headers: Headers, settings: Settings) -> None:
    """Make sure that a call may be made.

    Raises:
        Unauthorized: The service has an API key, and the call does not have it.
    """
    if settings.api_key is None:
        return
    scheme, _, sent = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not sent:
        raise Unauthorized("the call needs the header Authorization: Bearer <API key>")
    # Header values are decoded as Latin-1; the key's own bytes are compared.
    key = settings.api_key.get_secret_value().encode()
    if not hmac.compare_digest(sent.encode("latin-1", "replace"), key):
        raise Unauthorized("the API key is not the service's")
