"""The view of jobs looks as in the documents."""

from pathlib import Path

from docs.browser import Page
from docs.page_pictures import PICTURE, SETTINGS, fill_service, take_picture
from tests.browsers import expect_picture
from tests.server import RunningServer


def test_the_jobs_look_as_in_the_documents(page: Page, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", **SETTINGS, arena_slab_bytes=256 * 2**20) as server:
        fill_service(server.url)
        expect_picture(take_picture(page, server.url), PICTURE)
    assert page.problems == []
