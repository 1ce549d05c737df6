"""Plans: who would compute which rows, here or on a GPU that is not here."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.what_if import apply_what_if
from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.products.plan_query import PlanQuery
from wavetrim.service.api.products.plan_schemas import PlanView
from wavetrim.service.api.schemas import show_expected
from wavetrim.service.engine.engine import Engine
from wavetrim.service.errors import FieldProblem
from wavetrim.service.storage.arena.memory_limit import count_memory
from wavetrim.service.threads import run_to_end

router = APIRouter(prefix="/v1/plan", tags=["plan"], route_class=CallRoute)


@router.get("", response_model=PlanView, responses=list_refusals())
async def get_plan(query: Annotated[PlanQuery, Query()], call: Call) -> Response:
    """Plan a product: F, the kernel, the waves, and the predicted seconds over every F."""
    if query.queued and not query.is_here:
        raise FieldProblem("queued", True, "false for a product on another machine, or a what-if")
    async with call.parts.thinking:
        view = await run_to_end(_plan, query, call.parts.engine)
        if query.queued:
            problem = GemmProblem(query.m, query.n, query.k, query.dtype)
            posting = call.parts.dispatcher.posting
            expected = await posting.foresee(problem, query.options, call.tenant)
            view.expected = show_expected(expected)
        left_out = set() if query.queued else {"expected"}
        content = await run_to_end(view.model_dump_json, exclude=left_out)
    return Response(content, media_type="application/json")


def _plan(query: PlanQuery, engine: Engine) -> PlanView:
    problem = GemmProblem(query.m, query.n, query.k, query.dtype, query.memory, query.resident)
    described = query.find_described(query.device)
    is_elsewhere = described is not None or engine.profiles.is_elsewhere(query.device)
    problem.check_fits(None if is_elsewhere else count_memory())
    profiles = engine.profiles
    machine = profiles.describe(described) if described else profiles.find(query.device)
    plan = choose_plan(problem, apply_what_if(machine, query.what_if, query.dtype), query.options)
    return PlanView.model_validate(plan.describe(drawing=query.drawing))
