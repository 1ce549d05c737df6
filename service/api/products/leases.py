"""Leases: memory that callers on this host share with the service. Over the Unix socket only."""

import time
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Scope

from wavetrim.service.api.admission.json_route import JsonRoute
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import LeasesPart, SettingsPart, TenantPart
from wavetrim.service.api.products.lease_socket import find_lease_socket
from wavetrim.service.api.schemas import Owner
from wavetrim.service.errors import LeaseRefused
from wavetrim.service.storage.memory.leases import Lease

LeaseId = Annotated[str, Field(description="Id of the lease.")]

_EXAMPLE_ID: Final = "4b1f0c6a5d2e4f1d9a7b6c5d4e3f2a1b"


async def require_unix(request: Request) -> None:
    """FastAPI's dependency of calls that only callers on this host may make."""
    check_unix(request.scope)


def check_unix(scope: Scope, *, otherwise: str = "") -> None:
    """Make sure that a call has come over the Unix socket.

    Args:
        scope: The call's.
        otherwise: What other callers can do instead, added to the refusal.

    Raises:
        LeaseRefused: It has not.
    """
    server = scope.get("server")
    limit = "over the service's Unix socket (WAVETRIM_UNIX_SOCKET): leases are for this host"
    limit += otherwise
    if server is None or server[1] is not None:  # TCP has a port
        raise LeaseRefused("connection", "TCP", limit)
    if scope["app"].state.settings.unix_socket is None:
        raise LeaseRefused("connection", "another server's Unix socket", limit)


router = APIRouter(
    prefix="/v1/leases",
    tags=["leases"],
    dependencies=[Depends(require_unix)],
    route_class=JsonRoute,
)


class LeaseRequest(BaseModel):
    """Memory that a caller wants."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"bytes": 268435456}]}
    )

    bytes: int = Field(ge=1, description="How much, rounded up to a multiple of 2 MiB.")


class LeaseGrant(BaseModel):
    """A new lease, and where to fetch its descriptor."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": _EXAMPLE_ID,
                    "bytes": 268435456,
                    "socket": "/run/wavetrim/socket.leases",
                    "token": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA",
                }
            ]
        }
    )

    id: str = Field(description="How products name it.")
    bytes: int = Field(description="Its length.")
    socket: str = Field(
        description="Path of the SOCK_SEQPACKET socket that hands out its descriptor; the lease "
        "lasts as long as the connection."
    )
    token: str = Field(description="What to send there, once, within 10 seconds.")


class LeaseView(BaseModel):
    """A lease."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": _EXAMPLE_ID,
                    "bytes": 268435456,
                    "age_seconds": 12.5,
                    "locked": True,
                    "owner": "ada",
                }
            ]
        }
    )

    id: str = Field(description="How products name it.")
    bytes: int = Field(description="Its length.")
    age_seconds: float = Field(description="How long ago it was made.")
    locked: bool = Field(
        description="Whether all of it is page-locked, which takes about a second for each GiB. "
        "Until then its copies to a GPU are staged. Without a GPU nothing is locked."
    )
    owner: Owner


class LeaseList(BaseModel):
    """All leases."""

    leases: list[LeaseView] = Field(description="The oldest first.")


@router.post("", status_code=201, responses=list_refusals(408, 413, 415, 429, 507))
async def create_lease(
    request: LeaseRequest, leases: LeasesPart, settings: SettingsPart, tenant: TenantPart
) -> LeaseGrant:
    """Lease memory, which counts against the arena's."""
    assert settings.unix_socket is not None, "the call has come over it"
    lease, token = await leases.make(request.bytes, tenant)
    socket = str(find_lease_socket(settings.unix_socket))
    return LeaseGrant(id=lease.id, bytes=lease.size_bytes, socket=socket, token=token)


@router.get("", responses=list_refusals())
async def list_leases(leases: LeasesPart, tenant: TenantPart) -> LeaseList:
    """List the caller's leases; to a caller with the scope admin, everybody's."""
    return LeaseList(leases=[_show(lease) for lease in leases.list(tenant.sees)])


@router.get("/{lease_id}", responses=list_refusals(404))
async def get_lease(lease_id: LeaseId, leases: LeasesPart, tenant: TenantPart) -> LeaseView:
    """Show a lease, and whether it is page-locked yet."""
    return _show(leases.get(lease_id, tenant.sees))


@router.delete("/{lease_id}", status_code=204, responses=list_refusals(404))
async def delete_lease(lease_id: LeaseId, leases: LeasesPart, tenant: TenantPart) -> None:
    """End a lease; its memory is given back when no product needs it any more."""
    leases.end(leases.get(lease_id, tenant.sees))


def _show(lease: Lease) -> LeaseView:
    return LeaseView(
        id=lease.id,
        bytes=lease.size_bytes,
        age_seconds=time.monotonic() - lease.made_at,
        locked=lease.slab.locked,
        owner=lease.owner,
    )
