"""The caller itself: its name, what it may do, and what is left of its quotas."""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import InFlightPart, JobsPart, MatricesPart, TenantPart
from wavetrim.service.tenants.tenant import SCOPES

router = APIRouter(prefix="/v1/me", tags=["me"])


class QuotaView(BaseModel):
    """One of the caller's quotas."""

    used: int = Field(description="How much the caller uses now.")
    limit: int | None = Field(
        description="The most that it may use; null if only the service's own limits hold."
    )


class MeView(BaseModel):
    """The caller."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "ada",
                    "scopes": ["read", "compute"],
                    "stored_bytes": {"used": 33554560, "limit": 4294967296},
                    "queued_jobs": {"used": 0, "limit": 100},
                    "bytes_in_flight": {"used": 0, "limit": None},
                }
            ]
        }
    )

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


@router.get("", responses=list_refusals())
def get_me(
    tenant: TenantPart, matrices: MatricesPart, jobs: JobsPart, in_flight: InFlightPart
) -> MeView:
    """Show who calls, with its quotas and how much of them is used."""
    quota, name = tenant.quota, tenant.name
    return MeView(
        name=name,
        scopes=[scope for scope in SCOPES if scope in tenant.scopes],
        stored_bytes=QuotaView(used=matrices.stored.count(name), limit=quota.stored_bytes),
        queued_jobs=QuotaView(used=jobs.count_queued(name), limit=quota.queued_jobs),
        bytes_in_flight=QuotaView(used=in_flight.count(name), limit=quota.bytes_in_flight),
    )
