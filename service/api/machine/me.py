"""The caller itself: its name, what it may do, and what is left of its quotas."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.tenants.tenant import SCOPES

router = APIRouter(prefix="/v1/me", tags=["me"], route_class=CallRoute)


class QuotaView(BaseModel):
    """One of the caller's quotas."""

    used: int = Field(description="How much the caller uses now.")
    limit: int | None = Field(
        description="The most that it may use; null if only the service's own limits hold."
    )


class MeView(BaseModel):
    """The caller."""

    name: str = Field(
        description="Name of its key, and owner of what it makes; empty for the service's own key."
    )
    scopes: list[str] = Field(description="read, compute, admin.")
    stored_bytes: QuotaView = Field(description="Bytes of its matrices, on disk and in memory.")
    queued_jobs: QuotaView = Field(description="Its jobs that wait.")
    bytes_in_flight: QuotaView = Field(
        description="Bytes that its requests hold in memory: uploads, products in one call with "
        "their results, leases."
    )


@router.get("")
def get_me(call: Call) -> MeView:
    """Show who calls, with its quotas and how much of them is used."""
    parts, tenant = call.parts, call.tenant
    quota, name = tenant.quota, tenant.name
    queued = parts.dispatcher.live.queued[name]
    return MeView(
        name=name,
        scopes=[scope for scope in SCOPES if scope in tenant.scopes],
        stored_bytes=QuotaView(
            used=parts.matrices.stored.count_owned(name), limit=quota.stored_bytes
        ),
        queued_jobs=QuotaView(used=queued, limit=quota.queued_jobs),
        bytes_in_flight=QuotaView(used=parts.in_flight.count(name), limit=quota.bytes_in_flight),
    )
