"""Plans: who would compute which rows, here or on a GPU that is not here."""

from typing import Annotated

from fastapi import APIRouter, Query

from cpu.threads import usable_cores
from scheduler.description import describe_curve, describe_plan
from scheduler.plan import choose_plan
from scheduler.problem import GemmProblem
from scheduler.profile import find_profile
from service.openapi import list_refusals
from service.parts import EnginePart, SettingsPart
from service.plan_schemas import PlanQuery, PlanView
from service.routes.devices import read_devices

router = APIRouter(prefix="/v1/plan", tags=["plan"])


@router.get("", responses=list_refusals(422))
def plan_product(
    query: Annotated[PlanQuery, Query()], engine: EnginePart, settings: SettingsPart
) -> PlanView:
    """Plan a product: F, the kernel, the waves, and the predicted seconds over every F."""
    problem = GemmProblem(query.m, query.n, query.k, query.dtype)
    profile = engine.profile if query.device is None else None
    if profile is None:
        profile = find_profile(
            query.device,
            devices=read_devices(engine),
            directory=settings.profile_dir,
            cpu_threads=engine.cpu_threads or settings.cpu_threads or usable_cores(),
        )
    plan = choose_plan(problem, profile, kernel=query.kernel, tile=query.tile, f=query.f)
    return PlanView.model_validate({**describe_plan(plan), "curve": describe_curve(plan)})
