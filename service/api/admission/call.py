"""A request as the checks and the routes see it: with its caller, and the parts of the service."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from wavetrim.service.api.json_document import read_json
from wavetrim.service.tenants.tenant import Tenant

if TYPE_CHECKING:
    from wavetrim.service.parts import Frame, Parts

TENANT: Final = "wavetrim.tenant"
"""Key of the tenant in a call's ASGI scope, once its access was checked."""


class Call(Request):
    """A request.

    Attributes:
        begun: Whether its answer has begun.
    """

    begun = False

    @property
    def frame(self) -> "Frame":
        """What there is of the service before it starts: the checks need nothing else."""
        frame: Frame = self.scope["app"].state.frame
        return frame

    @property
    def parts(self) -> "Parts":
        """The parts of the service."""
        parts: Parts = self.scope["app"].state.parts
        return parts

    @property
    def tenant(self) -> Tenant:
        """Who makes the call; its access must have been checked."""
        tenant: Tenant = self.scope[TENANT]
        return tenant

    async def send(self, message: Message) -> None:
        """Its ASGI channel for the answer."""
        self.begun = True
        await self._send(message)

    async def answer(self, response: Response) -> None:
        """Send a whole answer."""
        await response(self.scope, self.receive, self.send)

    async def json(self) -> Any:
        """The body as a document.

        Raises:
            FieldProblem, RequestValidationError: As `read_json`.
        """
        return read_json(await self.body())


class CallRoute(APIRoute):
    """A route of FastAPI's whose function may take the `Call`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, whose requests are `Call`s."""
        handle = super().get_route_handler()

        async def handle_call(request: Request) -> Response:
            return await handle(Call(request.scope, request.receive))

        return handle_call
