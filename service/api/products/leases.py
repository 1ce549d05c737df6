"""Leases: memory that callers on this host share with the service. Over the Unix socket only."""

import time
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.calls import Call, CallRoute, read_model
from wavetrim.service.api.openapi import describe_json_body, list_refusals
from wavetrim.service.api.products.lease_socket import find_lease_socket
from wavetrim.service.api.schemas import Owner
from wavetrim.service.errors import LeaseRefused
from wavetrim.service.storage.memory.leases import Lease

LeaseId = Annotated[str, Field(description="Id of the lease.")]


def check_unix(call: Call, *, otherwise: str = "") -> Path:
    """Make sure that a call has come over the Unix socket; returns its path.

    Args:
        call: The call.
        otherwise: What other callers can do instead, added to the refusal.

    Raises:
        LeaseRefused: It has not.
    """
    server = call.scope.get("server")
    limit = "over the service's Unix socket (WAVETRIM_UNIX_SOCKET): leases are for this host"
    limit += otherwise
    if server is None or server[1] is not None:  # TCP has a port
        raise LeaseRefused("connection", "TCP", limit)
    if (path := call.parts.settings.unix_socket) is None:
        raise LeaseRefused("connection", "another server's Unix socket", limit)
    return path


router = APIRouter(prefix="/v1/leases", tags=["leases"], route_class=CallRoute)


class LeaseRequest(BaseModel):
    """Memory that a caller wants."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bytes: int = Field(ge=1, description="How much, rounded up to a multiple of 2 MiB.")


class LeaseGrant(BaseModel):
    """A new lease, and where to fetch its descriptor."""

    id: str = Field(description="How products name it.")
    bytes: int = Field(description="Its length.")
    socket: str = Field(
        description="Path of the SOCK_SEQPACKET socket that hands out its descriptor; the lease "
        "lasts as long as the connection."
    )
    token: str = Field(description="What to send there, once, within 10 seconds.")


class LeaseView(BaseModel):
    """A lease."""

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


@router.post(
    "",
    status_code=201,
    responses=list_refusals(408, 413, 415, 429, 507),
    openapi_extra=describe_json_body(LeaseRequest),
)
async def create_lease(call: Call) -> LeaseGrant:
    """Lease memory, which counts against the arena's."""
    unix_socket = check_unix(call)
    request = read_model(LeaseRequest, await call.receive_document())
    lease, token = await call.parts.leases.make(request.bytes, call.tenant)
    socket = str(find_lease_socket(unix_socket))
    return LeaseGrant(id=lease.id, bytes=lease.slab.size_bytes, socket=socket, token=token)


@router.get("", responses=list_refusals())
async def list_leases(call: Call) -> LeaseList:
    """List the caller's leases; to a caller with the scope admin, everybody's."""
    check_unix(call)
    return LeaseList(leases=[_show(lease) for lease in call.parts.leases.list(call.tenant.sees)])


@router.get("/{lease_id}", responses=list_refusals(404))
async def get_lease(call: Call, lease_id: LeaseId) -> LeaseView:
    """Show a lease, and whether it is page-locked yet."""
    check_unix(call)
    return _show(call.parts.leases.get(lease_id, call.tenant.sees))


@router.delete("/{lease_id}", status_code=204, responses=list_refusals(404))
async def delete_lease(call: Call, lease_id: LeaseId) -> None:
    """End a lease; its memory is given back when no product needs it any more."""
    check_unix(call)
    leases = call.parts.leases
    leases.end(leases.get(lease_id, call.tenant.sees))


def _show(lease: Lease) -> LeaseView:
    return LeaseView(
        id=lease.id,
        bytes=lease.slab.size_bytes,
        age_seconds=time.monotonic() - lease.made_at,
        locked=lease.slab.locked,
        owner=lease.owner,
    )
