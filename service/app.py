"""The application: what every request passes, and the routes."""

import asyncio
import os
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from wavetrim.scheduler.cluster.start import check_token
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.api.admission.auth import bearer
from wavetrim.service.api.admission.body_limit import BodyLimit
from wavetrim.service.api.admission.body_route import BodyRoutes
from wavetrim.service.api.admission.head_request import HeadRequests
from wavetrim.service.api.admission.host_check import HostCheck
from wavetrim.service.api.admission.query_check import refuse_unknown
from wavetrim.service.api.admission.request_log import RequestLog
from wavetrim.service.api.header_schemas import PRODUCT_HEADERS
from wavetrim.service.api.jobs import events, jobs
from wavetrim.service.api.machine import devices, health, me, metrics, profile
from wavetrim.service.api.matrices import matrices
from wavetrim.service.api.openapi import (
    complete_document,
    describe_refusal,
    list_refusals,
    name_operation,
)
from wavetrim.service.api.problem_kinds import DATABASE_AWAY
from wavetrim.service.api.problems import METHODS, answer_error, answer_http, answer_validation
from wavetrim.service.api.products import leases, matmul, plan
from wavetrim.service.api.products.leased_schemas import LeasedAnswer, LeasedProduct
from wavetrim.service.api.v2 import infer, model
from wavetrim.service.api.v2.body import HEAD_LENGTH
from wavetrim.service.api.v2.errors import ErrorMember
from wavetrim.service.api.v2.schemas import InferAnswer, InferHead
from wavetrim.service.descriptors import Descriptors
from wavetrim.service.errors import ServiceError, SettingRefused
from wavetrim.service.page import site
from wavetrim.service.parts import run_parts
from wavetrim.service.settings import Settings
from wavetrim.service.telemetry.metrics import Metrics
from wavetrim.service.tenants.key_ring import KeyRing
from wavetrim.service.tenants.tokens import make_tokens
from wavetrim.service.version import find_version

if TYPE_CHECKING:
    from wavetrim.service.telemetry.traces import Traces

_DESCRIPTION = """Multiplies matrices on the GPU and the CPU at once, split where the waves end.

Store two matrices, post a job, fetch the product; or do it in one call with `/v1/matmul`.
`/v1/plan` says who would compute which rows, and why. Refusals are problem documents (RFC 9457).
"""


def create_app(settings: Settings | None = None) -> FastAPI:
    """Makes the application; nothing is started or written before the server starts it.

    Args:
        settings: The settings; without them, the environment's.

    Raises:
        SettingRefused: The service would be reachable from other machines without an API key, or
            something that the settings ask for is missing.
        pydantic.ValidationError: The environment holds a setting that cannot be taken.
    """
    settings = settings or Settings()
    check_exposure(settings)
    check_cluster(settings)
    app = FastAPI(
        title="wavetrim",
        version=find_version(),
        description=_DESCRIPTION,
        lifespan=run_parts,
        openapi_url="/openapi.json" if settings.docs == "on" else None,
        docs_url=None,  # `page/site` has a page of its own, with all its files
        redoc_url=None,
        # A redirect to the path without its slash would name the host that the request named.
        redirect_slashes=False,
        generate_unique_id_function=name_operation,
    )
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.state.thinking = asyncio.Lock()  # held by threads that compute in Python: one at a time
    app.state.descriptors = Descriptors(settings.max_connections)
    app.state.keys = KeyRing()
    app.state.tokens = make_tokens(settings)
    app.state.given_up = asyncio.Event()  # set to end a start that waits for the database
    body_routes = (*matmul.routes, *infer.routes, *matrices.routes, *jobs.routes, *events.routes)
    app.add_middleware(HeadRequests)
    app.add_middleware(BodyLimit)
    app.add_middleware(BodyRoutes, routes=body_routes)
    if settings.cors_origins is not None:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.cors_origins.split(","), allow_methods=METHODS,
            allow_headers=["*"], expose_headers=_EXPOSED,
        )  # fmt: skip
    app.add_middleware(HostCheck, settings=settings)
    app.state.traces = traces = open_traces(settings)
    if traces is None:
        app.add_middleware(RequestLog, metrics=app.state.metrics)
    else:
        log = partial(RequestLog, find_parent=traces.find_parent)
        app.add_middleware(log, metrics=app.state.metrics)
        traces.watch_requests(app)
    app.add_middleware(ErrorMember)
    for error in (ServiceError, FieldError, *DATABASE_AWAY):
        app.add_exception_handler(error, answer_error)
    app.add_exception_handler(RequestValidationError, answer_validation)
    app.add_exception_handler(HTTPException, answer_http)
    app.router.routes += body_routes
    for module in (
        *(matrices, events, jobs, plan, profile, devices, leases, matmul, me),
        *(model, infer),
    ):
        app.include_router(module.router, dependencies=[Depends(bearer), Depends(refuse_unknown)])
    foreign: dict[int | str, dict[str, Any]] = {s: describe_refusal(s) for s in (400, 403)}
    app.include_router(health.router, responses=foreign)
    if settings.metrics == "open":
        app.include_router(metrics.router, responses=foreign)
    elif settings.metrics == "key":
        app.include_router(
            metrics.router, dependencies=[Depends(bearer)], responses=list_refusals()
        )
    app.include_router(site.make_router(docs=settings.docs == "on"))
    app.router.routes += site.list_files()
    _complete_document(app)
    return app


def check_exposure(settings: Settings) -> None:
    """Makes sure that a service on a network asks for an API key or a token.

    Raises:
        SettingRefused: The host is not loopback, and there is neither.
    """
    if not settings.on_loopback and not settings.names_callers:
        limit = "a loopback address as long as WAVETRIM_API_KEY and _JWT_ISSUER are not set"
        raise SettingRefused("host", settings.host, limit)


def check_cluster(settings: Settings) -> None:
    """Makes sure that the cluster in the settings, if any, can be joined.

    Raises:
        SettingRefused: Ray is not installed.
        FieldError: The cluster's token is not known here.
    """
    if settings.ray_address is None:
        return
    if find_spec("ray") is None:
        limit = "left out, as Ray is not installed (pip install 'wavetrim[ray]')"
        raise SettingRefused("ray_address", settings.ray_address, limit)
    check_token(os.environ)


def open_traces(settings: Settings) -> "Traces | None":
    """The maker of spans; None if traces are off.

    Raises:
        SettingRefused: OpenTelemetry is not installed.
    """
    if settings.traces == "off":
        return None
    try:
        from wavetrim.service.telemetry.traces import Traces
    except ModuleNotFoundError as error:
        limit = "off, as OpenTelemetry is not installed (pip install 'wavetrim[otel]')"
        raise SettingRefused("traces", settings.traces, limit) from error
    return Traces()


_EXPOSED: Final = (
    *("Content-Digest", "ETag", "Location", "Retry-After", "Server-Timing", "X-Request-Id"),
    *PRODUCT_HEADERS,
    HEAD_LENGTH,
)
"""Headers of answers that pages of `cors_origins` may read."""

_NAMED: Final = (LeasedProduct, LeasedAnswer, InferHead, InferAnswer)
"""Models that operations refer to by name: FastAPI does not see that they are used."""


def _complete_document(app: FastAPI) -> None:
    """Add to the OpenAPI document what FastAPI cannot see."""
    make_document = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = complete_document(make_document(), _NAMED)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
