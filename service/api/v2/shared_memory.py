"""The protocol's regions of shared memory: registered once, then named in requests."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import ValidationError

from wavetrim.service.api.admission.auth import find_tenant
from wavetrim.service.api.admission.body_route import refuse
from wavetrim.service.api.json_document import read_json
from wavetrim.service.api.openapi import list_refusals, refer
from wavetrim.service.api.parts import InferencePart
from wavetrim.service.api.v2.body import check_page
from wavetrim.service.api.v2.inference import check_regions
from wavetrim.service.api.v2.model_schemas import RegionRequest, RegionView
from wavetrim.service.storage.memory.named_regions import NamedRegion

RegionName = Annotated[
    str, Path(description="How requests name the region.", min_length=1, max_length=255)
]


async def _require_admin(request: Request) -> None:
    check_page(dict(request.scope["headers"]))
    check_regions(find_tenant(request.scope))


router = APIRouter(
    prefix="/v2/systemsharedmemory",
    tags=["Open Inference Protocol"],
    dependencies=[Depends(_require_admin)],
)

_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/json": refer(RegionRequest)},
    }
}


@router.get("/status", responses=list_refusals())
async def list_regions(inference: InferencePart) -> list[RegionView]:
    """List all regions."""
    return [_show(region) for region in inference.regions.list()]


@router.get("/region/{region_name}/status", responses=list_refusals(404))
async def get_region(region_name: RegionName, inference: InferencePart) -> list[RegionView]:
    """Show a region, in a list of one."""
    return [_show(inference.regions.get(region_name))]


@router.post(
    "/region/{region_name}/register",
    responses=list_refusals(408, 413, 415),
    openapi_extra=_BODY,
)
async def register_region(
    region_name: RegionName, request: Request, inference: InferencePart
) -> dict[str, str]:
    """Register existing shared memory; the public clients send no Content-Type."""
    region = check_region(await request.body())
    inference.regions.register(
        region_name, region.key, offset_bytes=region.offset, size_bytes=region.byte_size
    )
    return {}


@router.post("/region/{region_name}/unregister", responses=list_refusals(408, 413, 415))
async def unregister_region(region_name: RegionName, inference: InferencePart) -> dict[str, str]:
    """Forget a region; a name that is not registered is no error."""
    inference.regions.unregister(region_name)
    return {}


@router.post("/unregister", responses=list_refusals(408, 413, 415))
async def unregister_all_regions(inference: InferencePart) -> dict[str, str]:
    """Forget all regions."""
    inference.regions.unregister()
    return {}


def check_region(asked: bytes | dict[str, Any]) -> RegionRequest:
    """The region to register, from a JSON document or its members.

    Raises:
        RequestValidationError: It is not JSON, or a field is not valid.
        FieldProblem: As `read_json`.
    """
    try:
        document = read_json(asked) if isinstance(asked, bytes) else asked
        return RegionRequest.model_validate(document)
    except ValidationError as error:
        raise refuse(error, "body") from error


def _show(region: NamedRegion) -> RegionView:
    return RegionView(
        name=region.name, key=region.key, offset=region.offset_bytes, byte_size=region.size_bytes
    )
