"""Every view can be used: on a phone and a wide screen, light and dark, by the keyboard."""

from collections.abc import Iterator

import pytest

from docs.browser import Page
from tests.browsers import find_barriers, show
from tests.matrices import make_matrix
from tests.server import RunningServer

VIEWS = ("explorer&device=T4&threads=2", "jobs", "storage", "ladder&rung=tensor.float64")


@pytest.fixture(scope="module")
def busy(server: RunningServer) -> Iterator[RunningServer]:
    """A service that has something to show: jobs that have ended, run and wait."""
    a = server.upload(make_matrix(300, 300, "float64", seed=1))
    done = server.client.post("/v1/jobs", json={"a": a, "b": a, "verify": True}).json()["id"]
    server.wait_job(done)
    slow = server.upload(make_matrix(2000, 2000, "int64", seed=1))
    for _ in range(9):
        server.client.post("/v1/jobs", json={"a": slow, "b": slow}).raise_for_status()
    yield server
    for job in server.client.get("/v1/jobs").json()["jobs"]:
        server.client.delete(f"/v1/jobs/{job['id']}")


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1600, True)])
@pytest.mark.parametrize("view", VIEWS)
def test_nobody_is_kept_out(
    page: Page, busy: RunningServer, view: str, width: int, dark: bool
) -> None:
    page.resize(width, 900, dark=dark)
    page.open("about:blank")
    show(page, f"{busy.url}/#view={view}")
    assert page.run("document.documentElement.scrollWidth") == width
    assert find_barriers(page) == []
    assert page.problems == []
    assert all(url.startswith(("about:", f"{busy.url}/")) for url in page.requests)


@pytest.mark.parametrize("view", VIEWS)
def test_the_keyboard_reaches_all_that_can_be_done(
    page: Page, busy: RunningServer, view: str
) -> None:
    page.open("about:blank")
    show(page, f"{busy.url}/#view={view}")
    kinds = "a, button, input, select, [tabindex='0']"
    wanted = page.run(f"""[...document.querySelectorAll("#view :is({kinds})")]
        .filter((one) => one.checkVisibility() && !one.disabled).length""")
    page.run("document.getElementById('skip').focus(); globalThis.reached = new Set(); null")
    for _ in range(wanted + 12):
        page.press("Tab", code=9)
        page.run("reached.add(document.activeElement); null")
    assert wanted > 3
    assert page.run("[...reached].filter((one) => view.contains(one)).length") >= wanted
