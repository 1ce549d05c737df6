"""Plans: who would compute which rows, here or on a GPU that is not here."""

from typing import Annotated

from fastapi import APIRouter, Query

from scheduler.description import describe_curve, describe_plan
from scheduler.plan import choose_plan
from scheduler.problem import GemmProblem
from service.openapi import list_refusals
from service.parts import EnginePart, SettingsPart
from service.plan_schemas import PlanQuery, PlanView
from service.planning import find_planning_profile

router = APIRouter(prefix="/v1/plan", tags=["plan"])


@router.get("", responses=list_refusals(422))
def plan_product(
    query: Annotated[PlanQuery, Query()], engine: EnginePart, settings: SettingsPart
) -> PlanView:
    """Plan a product: F, the kernel, the waves, and the predicted seconds over every F."""
    problem = GemmProblem(query.m, query.n, query.k, query.dtype, query.memory)
    profile = find_planning_profile(engine, settings, query.device)
    plan = choose_plan(problem, profile, query.wishes)
    return PlanView.model_validate({**describe_plan(plan), "curve": describe_curve(plan)})
