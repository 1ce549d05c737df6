"""The application: what every request passes, and the routes."""

import os
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from wavetrim.scheduler.cluster.start import check_token
from wavetrim.service.api.calls import Admission
from wavetrim.service.api.jobs import events, jobs
from wavetrim.service.api.machine import devices, health, me, metrics
from wavetrim.service.api.matrices import matrices
from wavetrim.service.api.openapi import (
    EVERYWHERE,
    PRODUCT_HEADERS,
    complete_document,
    list_refusals,
    name_operation,
)
from wavetrim.service.api.problems import METHODS, answer_http
from wavetrim.service.api.products import leases, matmul, plan
from wavetrim.service.api.v2 import infer, model
from wavetrim.service.api.v2.answer import HEAD_LENGTH
from wavetrim.service.errors import SettingRefused
from wavetrim.service.page import site
from wavetrim.service.parts import Parts
from wavetrim.service.settings import Settings, is_loopback
from wavetrim.service.version import find_version

ROUTERS: Final = tuple(
    module.router
    for module in (
        matmul, infer, matrices, events, jobs, plan, devices, leases, me, model,
    )
)  # fmt: skip
"""Routes for callers with a key, in the order in which one is looked for."""

_BEARER: Final = HTTPBearer(auto_error=False, description="An API key or a token.")

_WITH_KEY: Final[dict[str, Any]] = {
    "dependencies": [Depends(_BEARER)], "responses": list_refusals(*EVERYWHERE)
}  # fmt: skip
"""How the OpenAPI document describes every /v1 and /v2 call: `checks` has checked its key."""

_WITHOUT_KEY: Final[dict[str, Any]] = {"responses": list_refusals(400, 403)}
"""The same of calls that need no key."""

_DESCRIPTION = """Multiplies matrices on the GPU and the CPU at once, split where the waves end.

Store two matrices, post a job, fetch the product; or do it in one call with `/v1/matmul`.
`/v1/plan` says who would compute which rows, and why. Refusals are problem documents (RFC 9457).
"""


class Application(FastAPI):
    """The application.

    Attributes:
        parts: All objects that its calls use.
    """

    parts: Parts


def create_app(settings: Settings | None = None) -> Application:
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
    parts = Parts(settings)
    app = Application(
        title="wavetrim",
        version=find_version(),
        description=_DESCRIPTION,
        lifespan=parts.run,
        openapi_url="/openapi.json" if settings.docs == "on" else None,
        docs_url=None,  # `page/site` has a page of its own, with all its files
        redoc_url=None,
        # A redirect to the path without its slash would name the host that the request named.
        redirect_slashes=False,
        generate_unique_id_function=name_operation,
    )
    app.parts = parts
    for router in ROUTERS:
        app.include_router(router, **_WITH_KEY)
    app.include_router(health.router, **_WITHOUT_KEY)
    routers = [*ROUTERS, health.router]
    if settings.metrics != "off":
        described = _WITH_KEY if settings.metrics == "key" else _WITHOUT_KEY
        app.include_router(metrics.router, **described)
        routers.append(metrics.router)
    routes = [route for one in routers for route in one.routes]
    app.add_middleware(Admission, parts=parts, routes=routes)
    app.router.routes += site.list_routes(docs=settings.docs == "on")
    if settings.cors_origins is not None:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.cors_origins.split(","), allow_methods=METHODS,
            allow_headers=["*"], expose_headers=_EXPOSED,
        )  # fmt: skip
    if parts.traces is not None:
        parts.traces.watch_requests(app)
    app.add_exception_handler(HTTPException, answer_http)
    make_document = app.openapi
    app.openapi = cache(  # type: ignore[method-assign]
        lambda: complete_document(make_document())
    )
    return app


def check_exposure(settings: Settings) -> None:
    """Makes sure that a service on a network asks for an API key or a token.

    Raises:
        SettingRefused: The host is not loopback, and there is neither.
    """
    is_here = settings.tcp == "off" or is_loopback(settings.host)  # a Unix socket is no network
    if not is_here and not settings.names_callers:
        limit = "a loopback address (127.0.0.1) until WAVETRIM_API_KEY or _JWT_ISSUER is set"
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


_EXPOSED: Final = (
    *("Content-Digest", "ETag", "Location", "Retry-After", "Server-Timing", "X-Request-Id"),
    *PRODUCT_HEADERS,
    HEAD_LENGTH,
)
"""Headers of answers that pages of `cors_origins` may read."""
