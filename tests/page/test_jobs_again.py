"""The page's list of jobs after it was not followed for a while: hidden, silent, or refused."""

import json
import shutil
import signal

import numpy as np
import pytest

from tests.browsers import go, show, show_anew
from tests.matrices import make_matrix
from tests.page.jobs import CARD, LIVE, NOTICE, OLDER

SHOWN = "document.querySelectorAll('li.job').length"
UNFINISHED = (
    "document.querySelectorAll(':is([data-state=queued], [data-state=running]).job').length"
)

EMPTY = "[...document.querySelectorAll('p')].find((one) => one.textContent.startsWith('No job'))"


@pytest.fixture(scope="module")
def slow(server):
    """A matrix whose square takes seconds: jobs behind it wait."""
    return server.upload(make_matrix(2000, 2000, "int64", seed=1))


@pytest.fixture(scope="module")
def small(server):
    return server.upload(np.ones((5, 5)))


def hide(page, is_hidden):
    """Let the tab be hidden behind another, or be shown again."""
    page.run(f"""Object.defineProperty(document, 'hidden', {{
        value: {json.dumps(is_hidden)}, configurable: true,
    }}); document.dispatchEvent(new Event('visibilitychange')); null""")


def test_a_tab_that_is_shown_again_has_every_job_as_it_is(page, server, slow, small):
    jobs = [server.post_job(slow, slow) for _ in range(25)]
    show_anew(page, f"{server.url}/#view=jobs")
    page.run(f"{OLDER}.click(); null")
    page.wait(f"{SHOWN} >= 25")
    assert page.run(UNFINISHED) == 25
    hide(page, True)
    for job in reversed(jobs):
        server.client.delete(f"/v1/jobs/{job}")
    new = [server.post_job(small, small) for _ in range(45)]
    for job in (*jobs, *new):
        server.wait_job(job)
    hide(page, False)
    page.wait(f"{LIVE} && {CARD.format(new[-1])} && {UNFINISHED} === 0")
    states = [page.run(f"{CARD.format(job)}.dataset.state") for job in jobs]
    # On a busy machine the first one may have ended before it is cancelled.
    assert states == [server.client.get(f"/v1/jobs/{job}").json()["state"] for job in jobs]
    assert states.count("cancelled") > 20
    while not page.run(f"{OLDER}.hidden"):
        before = page.run(SHOWN)
        page.run(f"{OLDER}.click(); null")
        page.wait(f"{SHOWN} > {before} || {OLDER}.hidden")
    assert page.run(SHOWN) == len(server.client.get("/v1/jobs?limit=200").json()["jobs"])
    order = page.run("[...document.querySelectorAll('li.job')].map((one) => one.dataset.job)")
    assert order[:45] == new[::-1]
    assert page.problems == []


def test_a_job_that_the_service_no_longer_has_is_taken_off(page, start_server):
    server = start_server()
    matrix = server.upload(make_matrix(2000, 2000, "int64", seed=1))
    job = server.post_job(matrix, matrix)
    show(page, f"{server.url}/#view=jobs")
    page.wait(CARD.format(job))
    server.kill()
    shutil.rmtree(server.data_dir)
    server.restart()
    page.wait(f"{LIVE} && {CARD.format(job)} === null")
    assert page.run(NOTICE) == ""
    assert page.run(f"{SHOWN} === 0 && {OLDER}.hidden && !{EMPTY}.hidden")


def test_a_silent_connection_is_given_up_and_opened_again(page, server, small):
    show_anew(page, f"{server.url}/#view=jobs")
    page.wait(LIVE)
    page.run("globalThis.plain = setTimeout; globalThis.setTimeout = (run, ms) => "
             "plain(run, ms === 45000 ? 1000 : ms); null")  # fmt: skip
    job = server.post_job(small, small)  # its events begin the next silence
    page.wait(f"{CARD.format(job)}?.dataset.state === 'succeeded'")
    server.process.send_signal(signal.SIGSTOP)
    try:
        page.wait(f"!({LIVE})")
        page.wait(f"{NOTICE} === 'The service is silent. Retrying…'")
        page.run("globalThis.setTimeout = plain; null")
    finally:
        server.process.send_signal(signal.SIGCONT)
    page.wait(f"{LIVE} && {NOTICE} === ''")
    job = server.post_job(small, small)
    page.wait(f"{CARD.format(job)}?.dataset.state === 'succeeded'")


def test_an_error_stays_until_the_same_action_succeeds(page, server, slow, small):
    gone, kept = (server.wait_job(server.post_job(small, small)) for _ in range(2))
    waiting = server.post_job(slow, slow)
    server.client.delete(f"/v1/matrices/{gone['result']}")
    show_anew(page, f"{server.url}/#view=jobs")
    page.wait(CARD.format(waiting))
    page.run("URL.createObjectURL = () => '#view=jobs'; null")  # nothing is saved on this machine
    press = "{}.querySelector('[aria-label^={}]').click(); null"
    page.run(press.format(CARD.format(gone["id"]), "Download"))
    page.wait(f"{NOTICE} !== ''")
    page.run(press.format(CARD.format(waiting), "Cancel"))
    page.wait(f"{CARD.format(waiting)}.dataset.state === 'cancelled'")
    assert gone["result"] in page.run(NOTICE)
    page.run(press.format(CARD.format(kept["id"]), "Download"))
    page.wait(f"{NOTICE} === ''")
    go(page, "location.hash = '#view=jobs&job=none'")
    assert "none" in page.run(NOTICE)
    go(page, f"location.hash = '#view=jobs&job={kept['id']}'")
    assert page.run(NOTICE) == ""
