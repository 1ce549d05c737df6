"""The page's jobs: shown live, and again after a while; and a product is posted and checked."""

import json
import re
import shutil
import signal

import numpy as np
import pytest

from docs.pictures import drop_file
from tests.browsers import go, read, show, show_anew
from tests.matrices import make_matrix

CARD = "document.querySelector('[data-job=\"{}\"]')"
LIVE = "document.querySelector('.live').textContent === 'Live'"
NOTICE = "document.getElementById('notice').textContent"
OLDER = "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Older jobs')"

PRODUCTS = [
    (make_matrix(300, 170, "float64", seed=1), make_matrix(170, 90, "float64", seed=2)),
    (make_matrix(70, 500, "float32", seed=3).copy("F"), make_matrix(500, 1, "float32", seed=9)),
    (make_matrix(64, 64, "int64", seed=5) * 10**10, make_matrix(64, 64, "int64", seed=6) * 10**9),
    (make_matrix(90, 400, "bfloat16", seed=1), make_matrix(400, 300, "bfloat16", seed=2)),
    (make_matrix(40, 70, "complex64", seed=3).copy("F"), make_matrix(70, 50, "complex64", seed=4)),
]


def multiply(a, b):
    """The product as NumPy has it; halves are summed in float32."""
    if a.dtype.itemsize > 2 or a.dtype.kind in "iu":
        return a @ b
    return (a.astype("float32") @ b.astype("float32")).astype(a.dtype)


@pytest.mark.parametrize(("a", "b"), PRODUCTS, ids=lambda one: str(one.dtype))
def test_two_files_are_multiplied_and_the_product_is_checked(page, shared_server, a, b):
    show_anew(page, f"{shared_server.url}/#view=jobs")
    drop_file(page, "a", "A.npy", a)
    drop_file(page, "b", "B.npy", b)
    page.run("document.getElementById('product').requestSubmit(); null")
    page.wait("document.getElementById('outcome').textContent")
    told = f"✓ Right: all {len(a) * b.shape[1]:,} elements of C have passed the check."
    assert read(page, "#outcome") == told
    job = shared_server.client.get("/v1/jobs?limit=1").json()["jobs"][0]
    product = shared_server.download(f"/v1/jobs/{job['id']}/result")
    right = multiply(a, b)
    product = product.view(right.dtype)  # numpy.load has no name for bfloat16
    wide = [x.astype("float32") if x.dtype.itemsize == 2 else x for x in (product, right)]
    np.testing.assert_allclose(*wide, rtol=1e-2 if a.dtype.itemsize == 2 else 1e-4)
    page.wait(f"{CARD.format(job['id'])}.dataset.state === 'succeeded'")
    assert page.problems == []


def test_files_that_do_not_fit_are_refused_before_they_are_sent(page, shared_server):
    show_anew(page, f"{shared_server.url}/#view=jobs")
    page.requests.clear()
    problem = "document.querySelector('#product .problem')"
    for b, words in (
        (make_matrix(6, 4, "float64", seed=1), "A has 5 columns and B has 6 rows"),
        (make_matrix(5, 4, "float32", seed=1), "A has elements of float64, B of float32"),
    ):
        drop_file(page, "a", "A.npy", make_matrix(3, 5, "float64", seed=1))
        drop_file(page, "b", "B.npy", b)
        page.wait(f"{problem}.textContent.startsWith({json.dumps(words)})")
    assert page.run("document.querySelector('#product [type=submit]').disabled")
    assert not any("matrices?" in url for url in page.requests)


def test_jobs_of_others_appear_and_progress_live(page, shared_server):
    show_anew(page, f"{shared_server.url}/#view=jobs")
    assert read(page, ".live") == "Live"
    slow = make_matrix(1400, 1400, "int64", seed=1)
    job_id = shared_server.post_job(slow, slow)
    card = CARD.format(job_id)
    width = f"Number({card}.querySelector('.rows-bar .cpu').getAttribute('width'))"
    page.wait(f"{card}?.querySelector('.rows-bar .cpu') && {width} > 0 && {width} < 1000")
    first = page.run(width)
    page.wait(f"{width} > {first}")
    page.wait(f"{card}.dataset.state === 'succeeded'")
    job = shared_server.client.get(f"/v1/jobs/{job_id}").json()
    told = page.run(f"{card}.textContent")
    assert "1,400 × 1,400 × 1,400 int64" in told
    page.run("navigator.clipboard.writeText = (text) => (globalThis.copied = text); null")
    page.run(f"{card}.querySelector('[aria-label^=Copy]').click(); null")
    assert page.run(f"[copied, {card}.querySelector('h3').textContent]") == [job_id, job_id]
    assert "CPU 1,400 of 1,400 rows" in told
    cells = page.run(f"[...{card}.querySelectorAll('tr')].map((one) => "
                     "[...one.children].map((cell) => cell.textContent))")  # fmt: skip
    planned_f, was_f = (f"{job[part][name]:,}" for part, name in
                        (("plan", "f"), ("timings", "f_actual")))  # fmt: skip
    assert cells[1] == ["F, rows of the CPU", planned_f, was_f]
    more = 100 * (job["timings"]["total_seconds"] / job["plan"]["predicted"]["total_seconds"] - 1)
    names = ["Product", "Measured vs predicted", "Wait for devices"]
    assert [row[0] for row in cells[-3:]] == names
    assert re.fullmatch(r"[\d.]+ (µs|ms|s)", cells[-1][-1])
    assert f"{abs(more):.3g}" in cells[-2][2] or abs(more) >= 100
    assert not any("wait_seconds" in url for url in page.requests)


def test_a_job_is_cancelled_by_its_button(page, shared_server):
    slow = make_matrix(2000, 2000, "int64", seed=1)
    job_id = shared_server.post_job(slow, slow)
    show_anew(page, f"{shared_server.url}/#view=jobs&job={job_id}")
    card = CARD.format(job_id)
    assert page.run(f"{card}.classList.contains('selected')")
    page.run(f"{card}.querySelector('[aria-label^=Cancel]').click(); null")
    page.wait(f"{card}.dataset.state === 'cancelled'")
    assert "been cancelled" in read(page, "#told")
    assert page.run(f"{card}.querySelector('[aria-label^=Cancel]').hidden")
    assert shared_server.client.get(f"/v1/jobs/{job_id}").json()["state"] == "cancelled"


def test_a_job_is_shown_in_the_explorer_with_its_measured_times(page, shared_server, saved):
    a, b = make_matrix(300, 200, "float32", seed=1), make_matrix(200, 100, "float32", seed=2)
    job = shared_server.wait_job(shared_server.post_job(a, b))
    show_anew(page, f"{shared_server.url}/#view=jobs&job={job['id']}")
    page.run(f"{CARD.format(job['id'])}.querySelector('[aria-label^=See]').click(); null")
    page.wait("document.getElementById('told-job')")
    assert read(page, "#told-job").startswith(f"Job {job['id'][:8]} was")
    fields = page.run("['m', 'n', 'k', 'dtype'].map((one) => document.getElementById(one).value)")
    assert fields == ["300", "100", "200", "float32"]
    events = json.loads(saved("Save for Perfetto"))["traceEvents"]
    names = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert [name.split(",")[1] for name in names] == [f" F = {job['plan']['f']}", " F = 300"]
    measured = [one["dur"] for one in events if one["ph"] == "X" and one["pid"] == 2]
    assert measured == [pytest.approx(1e6 * job["timings"]["cpu_seconds"])]
    assert page.problems == []


def test_the_page_reconnects_to_a_restarted_service(page, start_server):
    server = start_server()
    show(page, f"{server.url}/#view=jobs")
    live = "document.querySelector('.live')"
    server.stop()
    page.wait(f"{live}.textContent === 'Not connected. Retrying…'")
    notice = "document.getElementById('notice')"
    page.wait(f"{notice}.textContent === 'The service does not answer. Retrying…'")
    server.restart()
    job_id = server.post_job(np.ones((5, 5)), np.ones((5, 5)))
    page.wait(f"{live}.textContent === 'Live' && {CARD.format(job_id)}")
    page.open("about:blank")  # before its server ends: the next test has this tab


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
    page.open("about:blank")


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
