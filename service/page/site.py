"""Serves the pages and their files, each with a Content-Security-Policy."""

from functools import cache
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER: Final = Path(__file__).parent

_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
"""What may be asked for below /page, by its ending."""

_COMMON: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; "
)
EXPLORER_POLICY: Final = f"{_COMMON}style-src 'self'; img-src 'self' data: blob:"
DOCS_POLICY: Final = f"{_COMMON}style-src 'self' 'unsafe-inline'; img-src 'self' data:"
"""Swagger UI styles its elements inline."""

_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageFiles(StaticFiles):
    """The scripts and styles of the pages."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file of the folder.

        Raises:
            HTTPException: There is none, or it is not for browsers.
        """
        media_type = _TYPES.get(Path(path).suffix)
        if media_type is None:
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers.update({**_HEADERS, "Content-Type": media_type})
        return response


def make_router(*, docs: bool) -> APIRouter:
    """The routes of the pages, which anybody may read who reaches the service.

    Args:
        docs: Whether there is a description of the HTTP API at /docs.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def show_explorer() -> Response:
        page = _read_page("index.html")
        return _answer(page if docs else page.replace('data-docs="on"', ""), EXPLORER_POLICY)

    if docs:

        @router.get("/docs")
        async def show_docs() -> Response:
            return _answer(_read_page("docs.html"), DOCS_POLICY)

    return router


def _answer(page: str, policy: str) -> Response:
    return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": policy})


@cache
def _read_page(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
