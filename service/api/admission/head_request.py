"""HEAD, answered as GET: RFC 9110, section 9.1, wants both of every server.

Load balancers ask so whether a service is there. FastAPI's routes know only the methods that they
name. The server leaves the body out, as it still sees HEAD.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadRequests:
    """ASGI middleware that passes requests with HEAD on as GET.

    Args:
        app: Answers all requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection event."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        passed = {**scope, "method": "GET"}
        try:
            await self._app(passed, receive, send)
        finally:
            scope.update(passed, method="HEAD")  # the log reads the route there
