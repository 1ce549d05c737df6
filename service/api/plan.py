"""Plans: who would compute which rows, here or on a GPU that is not here."""

from typing import Annotated

from fastapi import APIRouter, Query

from wavetrim.scheduler.planning.description import describe_curve, describe_plan
from wavetrim.scheduler.planning.plan import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import EnginePart
from wavetrim.service.api.plan_schemas import PlanQuery, PlanView

router = APIRouter(prefix="/v1/plan", tags=["plan"])


@router.get("", responses=list_refusals())
def get_plan(query: Annotated[PlanQuery, Query()], engine: EnginePart) -> PlanView:
    """Plan a product: F, the kernel, the waves, and the predicted seconds over every F."""
    problem = GemmProblem(query.m, query.n, query.k, query.dtype, query.memory)
    plan = choose_plan(problem, engine.profiles.find(query.device), query.options)
    return PlanView.model_validate({**describe_plan(plan), "curve": describe_curve(plan)})
