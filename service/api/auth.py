"""Who may call /v1: whoever has the service's key, or a caller's key with the scope for it.

Without any key only this machine reaches the service, under loopback's names (`host_check.py`).
"""

import hmac
from typing import Any, Final

from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from wavetrim.service.errors import ScopeMissing, Unauthorized

bearer: Final = HTTPBearer(auto_error=False, description="An API key, where the service has one.")
"""FastAPI's dependency of every /v1 call: it describes in the OpenAPI document what `check_access`
has looked at, before any byte of a body was taken."""


def find_scope(method: str, path: str) -> str:
    """The scope that a call needs (pure); /metrics tells of all callers."""
    if path == "/metrics":
        return "admin"
    return "read" if method in ("GET", "HEAD") else "compute"


def check_access(headers: Headers, state: Any, scope: str) -> None:
    """Make sure that a call may be made.

    Args:
        headers: The call's headers.
        state: The application's state: settings and keys.
        scope: What the call needs; the service's own key has all.

    Raises:
        Unauthorized: There are keys, and the call has none of them.
        ScopeMissing: Its key is not for such calls.
    """
    own = state.settings.api_key
    if own is None and state.keys.empty:
        return
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Unauthorized("the call needs the header Authorization: Bearer <API key>")
    # Header values are decoded as Latin-1; the key's own bytes are compared.
    sent = text.encode("latin-1", "replace")
    if own is not None and hmac.compare_digest(sent, own.get_secret_value().encode()):
        return
    key = state.keys.find(sent)
    if key is None or key.revoked_at is not None:
        raise Unauthorized("the API key is not the service's, nor any caller's")
    if not key.allows(scope):
        raise ScopeMissing("scope", ",".join(sorted(key.scopes)), f"{scope} or admin")
