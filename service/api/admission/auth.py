"""Access to /v1 and /v2: for the service's own key, and for keys and tokens with the scope.

Without any key only this machine reaches the service, under loopback's names (`checks.check_host`).
"""

import hmac
from typing import Final

from fastapi.security import HTTPBearer

from wavetrim.service.api.admission.call import Call
from wavetrim.service.api.problems import is_protocols
from wavetrim.service.errors import ScopeMissing, Unauthorized
from wavetrim.service.settings import Settings
from wavetrim.service.tenants.tenant import ONE_TENANT, Tenant

bearer: Final = HTTPBearer(auto_error=False, description="An API key or a token.")
"""FastAPI's dependency of every /v1 and /v2 call. It only describes the key in the OpenAPI
document: `checks.check_access` has checked it before."""


def find_scope(method: str, path: str) -> str:
    """The scope that a call needs."""
    if path == "/metrics":  # it tells of all callers
        return "admin"
    only_looks = method in ("GET", "HEAD") or path == "/v2/repository/index"
    return "read" if only_looks else "compute"


def needs_access(path: str, settings: Settings) -> bool:
    """Whether calls of a path are for callers with a key only."""
    if path.startswith("/v1/") or is_protocols(path):
        return not path.startswith("/v2/health/")
    return path == "/metrics" and settings.metrics == "key"


async def authenticate(call: Call, needed: str) -> Tenant:
    """Who makes a call, by the key or token in its headers.

    Args:
        call: The call.
        needed: The scope that it needs.

    Raises:
        Unauthorized: The service has keys, and the call has no valid key or token.
        ScopeMissing: Its key or token lacks the scope.
        IssuerAway: Its token cannot be checked now.
    """
    tenant = await _read_tenant(call)
    if not tenant.allows(needed):
        raise ScopeMissing("scope", ",".join(sorted(tenant.scopes)), f"{needed} or admin")
    return tenant


async def _read_tenant(call: Call) -> Tenant:
    settings, keys, tokens = call.frame.settings, call.frame.keys, call.frame.tokens
    if not settings.names_callers and keys.empty:
        return ONE_TENANT
    scheme, _, text = call.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Unauthorized("the call needs the header Authorization: Bearer <API key>")
    # Header values are decoded as Latin-1; the key's own bytes are compared.
    sent, own = text.encode("latin-1", "replace"), settings.api_key
    if own is not None and hmac.compare_digest(sent, own.get_secret_value().encode()):
        return ONE_TENANT
    key = keys.find(sent)
    if key is None and tokens is not None and text.count(".") == 2:
        return await tokens.read(text)
    if key is None or key.revoked_at is not None:
        raise Unauthorized("the API key is not the service's, nor any caller's")
    return key.tenant
