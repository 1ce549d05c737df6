"""The files of the pages: policies, types, that none is out of date, and how they look."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

from docs.explorer_page import PAGE, SOURCE, render_page
from docs.ladder_tables import LADDER, render_ladder
from docs.pictures import JOBS, PICTURES, SETTINGS, fill_service, take_jobs
from docs.recorded_answers import render_tables
from tests.browsers import count, expect_picture, find_barriers, go, read, read_all, show_anew
from tests.server import RunningServer
from wavetrim.service.page.site import DOCS_POLICY, EXPLORER_POLICY

VENDOR = (SOURCE / "vendor", Path(__file__).parent / "vendor")


@pytest.mark.slow
def test_the_pages_tables_equal_pythons():
    for folder, texts in ((SOURCE, render_tables()), (LADDER, render_ladder())):
        for name, text in texts.items():
            assert (folder / name).read_text(encoding="utf-8") == text, "run `make explorer`"


def test_the_single_file_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `make explorer`"


@pytest.mark.parametrize("folder", VENDOR, ids=str)
def test_vendored_files_have_the_digests_of_their_readme(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", text, re.MULTILINE))
    files = {path.name: path for path in folder.iterdir() if path.name != "README.md"}
    assert {name: sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == listed
    assert any("LICENSE" in name for name in files)


def test_pages_have_a_strict_policy(shared_server):
    for path, policy in (("/", EXPLORER_POLICY), ("/docs", DOCS_POLICY)):
        response = shared_server.client.get(path)
        assert response.headers["content-security-policy"] == policy
        assert shared_server.client.head(path).headers["content-security-policy"] == policy
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in EXPLORER_POLICY
    for name in ("index.html", "docs.html"):
        text = (SOURCE / name).read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", text), name
        assert not re.search(r"(src|href)=\"(https?:)?//", text), name


def test_only_scripts_styles_and_kernels_are_served(shared_server):
    found = shared_server.client.get("/page/explorer/plan.js")
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    again = shared_server.client.get(
        "/page/explorer/plan.js", headers={"If-None-Match": found.headers["etag"]}
    )
    assert again.status_code == 304
    source = shared_server.client.get("/page/cuda/bulk.cu")
    assert source.headers["content-type"] == "text/plain; charset=utf-8"
    for path in (
        *("/page/site.py", "/page/", "/page/vendor", "/page/none.js", "/page/%2e%2e/app.py"),
        *("/page/cuda/", "/page/cuda/%2e%2e/compile.py", "/page/cuda/none.cu"),
    ):
        response = shared_server.client.get(path)
        assert response.status_code == 404, path
        assert response.headers["content-type"] == "application/problem+json"


def test_the_api_docs_show_every_operation(page, shared_server):
    page.open(f"{shared_server.url}/docs")
    page.wait("document.querySelectorAll('.opblock').length > 0")
    paths = shared_server.client.get("/openapi.json").json()["paths"]
    shown = count(page, ".opblock")
    assert shown == sum(map(len, paths.values()))
    page.resize(1280, 900, dark=True)
    assert find_barriers(page) == []
    assert page.run("document.documentElement.matches('.dark-mode')")
    call = read(page, "#call")
    assert call.startswith("cat A.npy B.npy | curl")
    assert f"'{shared_server.url}/v1/matmul'" in call
    page.run("document.querySelector('.opblock-summary-control').click(); null")
    page.wait("document.querySelector('.opblock.is-open')")
    assert page.run("location.hash") == "#/matmul/matmul"
    views = read_all(page, "nav a")
    assert views == ["Wave explorer", "Jobs", "Storage and devices", "Ladder", "HTTP API"]
    assert page.problems == []
    assert all(url.startswith(f"{shared_server.url}/") for url in page.requests)


def test_a_view_that_cannot_be_loaded_may_be_tried_again(page, start_server):
    server = start_server()
    explorer = f"{server.url}/#device=T4&threads=2&exercise=4"  # which is recorded
    show_anew(page, explorer)
    server.stop()
    told = "document.querySelector('#view > div > [role=alert]')?.textContent"
    go(page, "location.hash = '#view=jobs'")
    assert page.run(told).startswith("Jobs cannot be shown: The service does not answer.")
    assert page.run("document.title") == "Jobs · wavetrim"
    again = "document.querySelector('#view button').click()"
    page.run(f"{again}; null")
    go(page, "history.back()")
    assert page.run("Boolean(document.getElementById('headline'))")
    go(page, "history.forward()")
    assert page.run(told).startswith("Jobs cannot be shown")
    server.restart()
    page.run(f"{again}; null")
    page.wait("document.querySelector('.live')?.textContent === 'Live'")
    assert page.run(told) is None
    assert all("Failed to load resource" in problem for problem in page.problems)


def test_without_api_docs_the_page_has_no_link_to_them(page, start_server):
    server = start_server(docs="off")
    page.open(f"{server.url}/#device=T4&threads=2")
    page.wait("document.getElementById('headline')")
    assert count(page, "nav a") == 4
    assert page.run("document.querySelector('nav a[href=docs]')") is None
    assert server.client.get("/docs").status_code == 404


@pytest.mark.parametrize("name", PICTURES)
def test_the_explorer_looks_as_in_the_documents(page, name):
    picture = PICTURES[name]
    expect_picture(picture.take(page), picture.path)


def test_the_jobs_look_as_in_the_documents(page, tmp_path):
    with RunningServer(tmp_path / "data", **SETTINGS, arena_slab_bytes=256 * 2**20) as server:
        fill_service(server.url)
        expect_picture(take_jobs(page, server.url), JOBS)
    assert page.problems == []
