"""Access to /v1 and /v2: for the service's own key, and for keys and tokens with the scope.

Without any key only this machine reaches the service, under loopback's names (`host_check.py`).
"""

import hmac
from typing import Any, Final

from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import Scope

from wavetrim.service.errors import ScopeMissing, Unauthorized
from wavetrim.service.tenants.tenant import ONE_TENANT, Tenant

bearer: Final = HTTPBearer(auto_error=False, description="An API key or a token.")
"""FastAPI's dependency of every /v1 and /v2 call. It only describes the key in the OpenAPI
document: `check_access` has checked it before."""

_TENANT: Final = "wavetrim.tenant"
"""Key of the tenant in a call's ASGI scope."""


def find_scope(method: str, path: str) -> str:
    """The scope that a call needs."""
    if path == "/metrics":  # it tells of all callers
        return "admin"
    only_looks = method in ("GET", "HEAD") or path == "/v2/repository/index"
    return "read" if only_looks else "compute"


async def check_access(scope: Scope, headers: Headers) -> None:
    """Make sure that a call may be made; from then on `find_tenant` knows who calls.

    Args:
        scope: The call.
        headers: Its headers.

    Raises:
        Unauthorized: The service has keys, and the call has no valid key or token.
        ScopeMissing: Its key or token lacks the scope.
        IssuerAway: Its token cannot be checked now.
        QuotaReached: The caller holds as many connections as it may.
    """
    needed = find_scope(scope["method"], scope["path"])
    tenant = await authenticate(headers, scope["app"].state, needed)
    scope["app"].state.descriptors.enter(tenant.name)
    scope[_TENANT] = tenant


def end_access(scope: Scope) -> None:
    """A call has ended; nothing is done if it was refused."""
    tenant: Tenant | None = scope.get(_TENANT)
    if tenant is not None:
        scope["app"].state.descriptors.leave(tenant.name)


async def authenticate(headers: Headers, state: Any, needed: str) -> Tenant:
    """Who makes a call, by its headers.

    Args:
        headers: The call's headers.
        state: The parts of the service.
        needed: The scope that the call needs.

    Raises:
        Unauthorized: The service has keys, and the call has no valid key or token.
        ScopeMissing: Its key or token lacks the scope.
        IssuerAway: Its token cannot be checked now.
    """
    tenant = await _read_tenant(headers, state)
    if not tenant.allows(needed):
        raise ScopeMissing("scope", ",".join(sorted(tenant.scopes)), f"{needed} or admin")
    return tenant


def find_tenant(scope: Scope) -> Tenant:
    """Who makes a call whose access was checked."""
    tenant: Tenant = scope[_TENANT]
    return tenant


async def _read_tenant(headers: Headers, state: Any) -> Tenant:
    """Who calls, by the key or token that is sent; raises as `authenticate` does."""
    own = state.settings.api_key
    if not state.settings.names_callers and state.keys.empty:
        return ONE_TENANT
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Unauthorized("the call needs the header Authorization: Bearer <API key>")
    # Header values are decoded as Latin-1; the key's own bytes are compared.
    sent = text.encode("latin-1", "replace")
    if own is not None and hmac.compare_digest(sent, own.get_secret_value().encode()):
        return ONE_TENANT
    key = state.keys.find(sent)
    if key is None and state.tokens is not None and text.count(".") == 2:
        token_tenant: Tenant = await state.tokens.read(text)
        return token_tenant
    if key is None or key.revoked_at is not None:
        raise Unauthorized("the API key is not the service's, nor any caller's")
    tenant: Tenant = key.tenant
    return tenant
