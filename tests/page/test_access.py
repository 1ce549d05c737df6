"""Every view is accessible: on narrow and wide screens, light and dark, by keyboard."""

import pytest

from tests.browsers import expect_accessible, show_anew
from tests.matrices import make_matrix
from tests.page.explorer import BY_COLUMNS, BY_ROWS, FILE, MEASURED, SPLIT

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
    expect_accessible(page, url, width=width, dark=dark)
    assert page.problems == []
    assert len(page.requests) > 20
    assert all(asked.startswith(url.partition("#")[0]) for asked in page.requests)


@pytest.mark.parametrize(
    ("width", "dark", "address"),
    [
        (360, False, f"{FILE}{SPLIT}"),
        (1600, True, f"{FILE}{MEASURED}&guess=500&exercise=8"),
        (360, True, f"{BY_ROWS}&gpus=8"),
        (1600, False, BY_COLUMNS),
    ],
)
def test_results_are_accessible_in_one_file_and_of_several_gpus(
    page, shared_server, width, dark, address
):
    url = f"{shared_server.url}/{address}" if address.startswith("#") else address
    expect_accessible(page, url, width=width, dark=dark)
    numbers = "document.getElementById('numbers')"
    assert page.run(f"{numbers}.scrollWidth <= {numbers}.clientWidth")


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
