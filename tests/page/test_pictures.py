"""The page looks as in the documents."""

import pytest

from docs.pictures import JOBS, PICTURES, SETTINGS, fill_service, take_jobs
from tests.browsers import expect_picture
from tests.server import RunningServer


@pytest.mark.parametrize("name", PICTURES)
def test_the_explorer_looks_as_in_the_documents(page, name):
    picture = PICTURES[name]
    expect_picture(picture.take(page), picture.path)


def test_the_jobs_look_as_in_the_documents(page, tmp_path):
    with RunningServer(tmp_path / "data", **SETTINGS, arena_slab_bytes=256 * 2**20) as server:
        fill_service(server.url)
        expect_picture(take_jobs(page, server.url), JOBS)
    assert page.problems == []
