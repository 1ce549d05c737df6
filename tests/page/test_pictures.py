"""The views look as in the documents."""

from collections.abc import Iterator

import pytest

from docs.browser import Page
from docs.page_pictures import PICTURES, SETTINGS, fill_service
from tests.browsers import expect_picture
from tests.server import RunningServer


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("pictures")
    with RunningServer(folder / "data", **SETTINGS, arena_slab_bytes=256 * 2**20) as server:
        fill_service(server.url)
        yield server


@pytest.mark.parametrize("name", PICTURES)
def test_a_view_looks_as_in_the_documents(page: Page, filled: RunningServer, name: str) -> None:
    picture = PICTURES[name]
    expect_picture(picture.take(page, filled.url), picture.path)
    assert page.problems == []
