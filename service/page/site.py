"""Serves the pages and their files, each with a Content-Security-Policy."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from wavetrim.kernels.compile import KERNEL_SOURCES

FOLDER: Final = Path(__file__).parent

_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
"""What may be asked for below /page, by its ending."""

_SOURCES: Final = {".cu": "text/plain; charset=utf-8", ".cuh": "text/plain; charset=utf-8"}
"""The same of /page/cuda: what the ladder shows."""

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
}


class PageFiles(StaticFiles):
    """The files of a folder that browsers may have.

    Args:
        folder: The folder.
        types: Media types by the endings that may be asked for.
    """

    def __init__(self, folder: Path, types: Mapping[str, str]) -> None:
        super().__init__(directory=folder)
        self._types = types

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file of the folder.

        Raises:
            HTTPException: There is none, or it is not for browsers.
        """
        media_type = self._types.get(Path(path).suffix)
        if media_type is None:
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers.update({**_HEADERS, "Content-Type": media_type})
        return response


def list_routes(*, docs: bool) -> list[BaseRoute]:
    """The routes of the pages and their files, which anybody may read who reaches the service.

    Args:
        docs: Whether there is a description of the HTTP API at /docs.
    """

    async def show_explorer(_request: Request) -> Response:
        page = _read_page("index.html")
        return _answer(page if docs else page.replace('data-docs="on"', ""), EXPLORER_POLICY)

    async def show_docs(_request: Request) -> Response:
        return _answer(_read_page("docs.html"), DOCS_POLICY)

    pages = [Route("/", show_explorer), *([Route("/docs", show_docs)] if docs else [])]
    files = PageFiles(KERNEL_SOURCES, _SOURCES), PageFiles(FOLDER, _TYPES)
    return [*pages, Mount("/page/cuda", files[0], name="cuda"), Mount("/page", files[1])]


def _answer(page: str, policy: str) -> Response:
    return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": policy})


@cache
def _read_page(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
