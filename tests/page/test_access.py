"""Every view is accessible: on narrow and wide screens, light and dark, by keyboard."""

import pytest

from tests.browsers import find_barriers, show_anew
from tests.matrices import make_matrix

VIEWS = ("explorer&device=T4&threads=2", "jobs", "storage", "ladder&rung=tensor.float64")


@pytest.fixture(params=VIEWS)
def url(request, server):
    """The address of a view of a service with jobs that have ended, run and wait."""
    small = server.upload(make_matrix(300, 300, "int64", seed=1))
    jobs = [server.post_job(small, small, verify=True)]
    server.wait_job(jobs[0])
    if request.param == "jobs":  # they take a core, which the other views do not need
        slow = server.upload(make_matrix(2000, 2000, "int64", seed=1))
        jobs += [server.post_job(slow, slow) for _ in range(9)]
    yield f"{server.url}/#view={request.param}"
    for job in reversed(jobs):
        server.client.delete(f"/v1/jobs/{job}")


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1600, True)])
def test_every_view_is_accessible_on_narrow_and_wide_screens(page, url, width, dark):
    page.resize(width, 900, dark=dark)
    show_anew(page, url)
    assert page.run("document.documentElement.scrollWidth") == width
    assert find_barriers(page) == []
    assert page.problems == []
    assert all(asked.startswith(url.partition("#")[0]) for asked in page.requests)


def test_the_keyboard_reaches_every_control(page, url):
    show_anew(page, url)
    kinds = "a, button, input, select, [tabindex='0']"
    wanted = page.run(f"""[...document.querySelectorAll("#view :is({kinds})")]
        .filter((one) => one.checkVisibility() && !one.disabled).length""")
    page.run("document.getElementById('skip').focus(); globalThis.reached = new Set(); null")
    for _ in range(wanted + 12):
        page.press("Tab", code=9)
        page.run("reached.add(document.activeElement); null")
    assert wanted > 3
    assert page.run("[...reached].filter((one) => view.contains(one)).length") >= wanted
