"""The page's jobs: shown live, and a product that is posted and checked in the browser."""

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from docs.browser import Browser, Page
from docs.explorer_page import SOURCE, join_modules
from docs.page_pictures import drop_file
from tests.browsers import show, show_anew
from tests.matrices import make_matrix
from tests.page.jobs import CARD, read
from tests.server import RunningServer, Start, encode_npy
from wavetrim.service.api.jobs.job_schemas import JobView

Array = NDArray[Any]

PRODUCTS = [
    (make_matrix(300, 170, "float64", seed=1), make_matrix(170, 90, "float64", seed=2)),
    (make_matrix(70, 500, "float32", seed=3).copy("F"), make_matrix(500, 1, "float32", seed=9)),
    (make_matrix(40, 50, "float16", seed=4), make_matrix(50, 60, "float16", seed=9).copy("F")),
    (make_matrix(64, 64, "int64", seed=5) * 10**10, make_matrix(64, 64, "int64", seed=6) * 10**9),
    (make_matrix(33, 44, "uint8", seed=7), make_matrix(44, 55, "uint8", seed=8)),
    (make_matrix(90, 400, "bfloat16", seed=1), make_matrix(400, 300, "bfloat16", seed=2)),
    (make_matrix(40, 70, "complex64", seed=3).copy("F"), make_matrix(70, 50, "complex64", seed=4)),
    (make_matrix(50, 60, "complex128", seed=5), make_matrix(60, 1, "complex128", seed=6)),
]


def multiply(a: Array, b: Array) -> Array:
    """The product as NumPy has it; halves are summed in float32."""
    if a.dtype.itemsize > 2 or a.dtype.kind in "iu":
        return np.asarray(a @ b)
    return np.asarray((a.astype("float32") @ b.astype("float32")).astype(a.dtype))


@pytest.mark.parametrize(("a", "b"), PRODUCTS, ids=lambda one: str(one.dtype))
def test_two_files_are_multiplied_and_the_product_is_checked_in_the_page(
    page: Page, shared_server: RunningServer, a: Array, b: Array
) -> None:
    show_anew(page, f"{shared_server.url}/#view=jobs")
    drop_file(page, "a", "A.npy", a)
    drop_file(page, "b", "B.npy", b)
    page.run("document.getElementById('product').requestSubmit(); null")
    page.wait("document.getElementById('outcome').dataset.right")
    outcome = read(page, "document.getElementById('outcome')")
    assert page.run("document.getElementById('outcome').dataset.right") == "true", outcome
    assert outcome.count("✓ right") == 2
    assert f"{len(a)} × {b.shape[1]}{len(a)} × {b.shape[1]}" in outcome
    job = shared_server.client.get("/v1/jobs?limit=1").json()["jobs"][0]
    product = shared_server.download(f"/v1/jobs/{job['id']}/result")
    right = multiply(a, b)
    product = product.view(right.dtype)  # numpy.load has no name for bfloat16
    wide = [x.astype("float32") if x.dtype.itemsize == 2 else x for x in (product, right)]
    np.testing.assert_allclose(*wide, rtol=1e-2 if a.dtype.itemsize == 2 else 1e-4)
    page.wait(f"{CARD.format(job['id'])}.dataset.state === 'succeeded'")
    assert page.problems == []


def test_an_f_beyond_all_sizes_is_refused_and_not_replaced(
    page: Page, shared_server: RunningServer
) -> None:
    show_anew(page, f"{shared_server.url}/#view=jobs")
    for name in "ab":
        drop_file(page, name, f"{name}.npy", make_matrix(5, 5, "float64", seed=1))
    page.run("document.getElementById('job-f').value = 20000000; "
             "document.getElementById('product').requestSubmit(); null")  # fmt: skip
    page.wait("document.querySelector('#view [role=alert]:not([hidden])')")
    told = read(page, "document.querySelector('#view [role=alert]:not([hidden])')")
    assert told.startswith("f is 20000000;")


def test_files_that_do_not_fit_are_refused_before_they_are_sent(
    page: Page, shared_server: RunningServer
) -> None:
    show_anew(page, f"{shared_server.url}/#view=jobs")
    page.requests.clear()
    problem = "document.querySelector('#product .problem')"
    for b, words in (
        (make_matrix(6, 4, "float64", seed=1), "A has 5 columns and B 6 rows"),
        (make_matrix(5, 4, "float32", seed=1), "A has elements of float64, B of float32"),
    ):
        drop_file(page, "a", "A.npy", make_matrix(3, 5, "float64", seed=1))
        drop_file(page, "b", "B.npy", b)
        page.wait(f"{problem}.textContent.startsWith({json.dumps(words)})")
    drop_file(page, "b", "B.txt", b"1 2 3")
    page.wait("document.getElementById('told-b').textContent === 'B.txt is not a .npy file'")
    whole = encode_npy(make_matrix(5, 4, "float64", seed=1))
    big = encode_npy(np.ones((5, 4), ">f8"))
    for content, words in (
        (whole[:8], "is not a .npy file"),
        (whole[:-1], "has 287 bytes; by its header it must have 288"),
        (big, "has elements of float64; they must be"),
    ):
        drop_file(page, "b", "B.npy", content)
        page.wait(f"document.getElementById('told-b').textContent.includes({json.dumps(words)})")
    assert page.run("document.querySelector('#product button').disabled")
    assert not any("matrices?" in url for url in page.requests)


def test_two_files_dropped_at_once_are_a_and_b(page: Page, shared_server: RunningServer) -> None:
    show_anew(page, f"{shared_server.url}/#view=jobs")
    a, b = (base64.b64encode(encode_npy(np.ones(shape))).decode() for shape in ((3, 4), (4, 5)))
    page.run(f"""(() => {{
        const carried = new DataTransfer();
        for (const [name, text] of [["right.npy", "{b}"], ["left.npy", "{a}"]])
            carried.items.add(new File([Uint8Array.from(atob(text), (x) => x.charCodeAt())], name));
        const zone = document.querySelector('[data-zone=b]');
        zone.dispatchEvent(new DragEvent('drop', {{ dataTransfer: carried, cancelable: true }}));
    }})()""")
    page.wait("document.querySelectorAll('.zone.taken').length === 2")
    told = [read(page, f"document.getElementById('told-{name}')") for name in "ab"]
    assert [text.split(":")[0] for text in told] == ["left.npy", "right.npy"]
    page.wait("!document.querySelector('#product button').disabled")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rows_done": {"gpu": 4096, "cpu": 512, "nodes": 0}}, "GPU 4,096, CPU 512 of 16,384 rows"),
        (
            {"rows_done": {"gpu": 0, "cpu": 0, "nodes": 8192}},
            "GPU 0, CPU 0, other hosts 8,192 of 16,384 rows",
        ),
        ({"state": "succeeded"}, "GPU 16,376, CPU 8 of 16,384 rows"),
    ],
)
def test_the_rows_bar_shows_gpu_cpu_and_nodes(
    page: Page, changes: dict[str, Any], told: str
) -> None:
    (example,) = JobView.model_json_schema()["examples"]
    job = json.dumps({**example, "state": "running", **changes})
    page.open("about:blank")
    modules = join_modules([SOURCE / "jobs" / "rows_bar.js"])
    label, parts = page.run(f"""(({{ drawRowsBar, findShares }}) => {{
        const bar = drawRowsBar(findShares({job}));
        const parts = ['gpu', 'nodes', 'cpu'].map((name) => {{
            const part = bar.querySelector('.' + name);
            return ['x', 'width'].map((one) => Number(part.getAttribute(one)));
        }});
        return [bar.getAttribute('aria-label'), parts];
    }})({modules})""")
    (_, gpu), (nodes_begin, nodes), (cpu_begin, cpu) = parts
    assert label == told
    *sides, rows = map(int, re.findall(r"\d+", told.replace(",", "")))
    assert gpu + nodes + cpu == pytest.approx(1000 * sum(sides) / rows)
    assert nodes_begin == pytest.approx(gpu)  # from the first row on
    assert cpu_begin + cpu == pytest.approx(1000)  # up to the last


@pytest.fixture(scope="module")
def checker(browser: Browser) -> Page:
    """A tab with the page's own check of products."""
    page = browser.open_page()
    entries = [SOURCE / "npy.js", SOURCE / "jobs" / "product_check.js"]
    page.run(f"globalThis.check = {join_modules(entries)}; null")
    return page


def check_in_page(checker: Page, a: Array, b: Array, product: Array) -> Any:
    """Whether the page calls a product right; None if it cannot tell."""
    files = json.dumps([base64.b64encode(encode_npy(x)).decode() for x in (a, b, product)])
    return checker.run(f"""(async () => {{
        const read = async (text) => {{
            const file = new Blob([Uint8Array.from(atob(text), (one) => one.charCodeAt(0))]);
            return check.readElements(file, await check.readHeader(file));
        }};
        const parts = await Promise.all({files}.map(read));
        return (await check.checkProduct(...parts, {json.dumps(str(a.dtype))})).right;
    }})()""")


@pytest.mark.parametrize(("a", "b"), PRODUCTS, ids=lambda one: str(one.dtype))
def test_one_wrong_element_is_found(checker: Page, a: Array, b: Array) -> None:
    right = multiply(a, b)
    wrong = right.copy(order="K")
    row, column = np.unravel_index(np.abs(right.astype(complex)).argmin(), right.shape)
    is_whole = np.issubdtype(right.dtype, np.integer)
    wrong[row, column] += 1 if is_whole else right.dtype.type(0.2 * np.sqrt(a.shape[1]))
    assert check_in_page(checker, a, b, right) is True
    assert check_in_page(checker, a, b, wrong) is False


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_nan_is_right_only_where_the_product_has_it(checker: Page, dtype: str) -> None:
    a, b = make_matrix(20, 30, dtype, seed=1), make_matrix(30, 10, dtype, seed=2)
    finite = multiply(a, b)
    wrong, holed = finite.copy(), a.copy()
    wrong[3, 4], holed[3, 5] = np.nan, np.nan
    assert check_in_page(checker, a, b, wrong) is False
    assert check_in_page(checker, holed, b, multiply(holed, b)) is True
    assert check_in_page(checker, holed, b, finite) is False
    different = multiply(holed, b)
    different[7, 2] += 9
    assert check_in_page(checker, holed, b, different) is False


def test_infinities_that_the_elements_cannot_hold_are_not_compared(checker: Page) -> None:
    a, b = np.full((4, 2), 300, "float16"), np.full((2, 6), 300, "float16")
    b[:, ::2] *= -1
    product = np.broadcast_to(np.copysign(np.float16(np.inf), b[0]), (4, 6)).copy()
    assert check_in_page(checker, a, b, product) is None
    product[0] = np.nan
    assert check_in_page(checker, a, b, product) is False


def test_jobs_of_others_appear_and_progress_live(page: Page, shared_server: RunningServer) -> None:
    show_anew(page, f"{shared_server.url}/#view=jobs")
    assert read(page, "document.querySelector('.live')") == "Live"
    slow = make_matrix(1400, 1400, "int64", seed=1)
    job_id = shared_server.post_job(slow, slow)
    card = CARD.format(job_id)
    width = f"Number({card}.querySelector('.rows-bar .cpu').getAttribute('width'))"
    page.wait(f"{card}?.querySelector('.rows-bar .cpu') && {width} > 0 && {width} < 1000")
    first = page.run(width)
    page.wait(f"{width} > {first}")
    page.wait(f"{card}.dataset.state === 'succeeded'")
    job = shared_server.client.get(f"/v1/jobs/{job_id}").json()
    told = read(page, card)
    assert "1,400 × 1,400 × 1,400 int64" in told
    assert "CPU 1,400 of 1,400 rows" in told
    cells = page.run(f"[...{card}.querySelectorAll('tr')].map((one) => "
                     "[...one.children].map((cell) => cell.textContent))")  # fmt: skip
    planned_f, was_f = (f"{job[part][name]:,}" for part, name in
                        (("plan", "f"), ("timings", "f_actual")))  # fmt: skip
    assert cells[1] == ["F, rows of the CPU", planned_f, was_f]
    more = 100 * (job["timings"]["total_seconds"] / job["plan"]["predicted"]["total_seconds"] - 1)
    assert [row[0] for row in cells[-2:]] == ["Product", "Wait for devices"]
    assert re.fullmatch(r"[\d.]+ (µs|ms|s)", cells[-1][-1])
    assert f"{abs(more):.3g}" in cells[-2][2] or abs(more) >= 100
    assert not any("wait_seconds" in url for url in page.requests)


def test_a_job_is_cancelled_by_its_button(page: Page, shared_server: RunningServer) -> None:
    slow = make_matrix(2000, 2000, "int64", seed=1)
    job_id = shared_server.post_job(slow, slow)
    show_anew(page, f"{shared_server.url}/#view=jobs&job={job_id}")
    card = CARD.format(job_id)
    assert page.run(f"{card}.classList.contains('selected')")
    page.run(f"{card}.querySelector('[aria-label^=Cancel]').click(); null")
    page.wait(f"{card}.dataset.state === 'cancelled'")
    assert "been cancelled" in read(page, "document.getElementById('told')")
    assert page.run(f"{card}.querySelector('[aria-label^=Cancel]').hidden")
    assert shared_server.client.get(f"/v1/jobs/{job_id}").json()["state"] == "cancelled"


def test_a_job_is_shown_in_the_explorer_with_its_measured_times(
    page: Page, shared_server: RunningServer, saved: Callable[[str], bytes]
) -> None:
    a, b = make_matrix(300, 200, "float32", seed=1), make_matrix(200, 100, "float32", seed=2)
    job = shared_server.wait_job(shared_server.post_job(a, b))
    show_anew(page, f"{shared_server.url}/#view=jobs&job={job['id']}")
    page.run(f"{CARD.format(job['id'])}.querySelector('[aria-label^=See]').click(); null")
    page.wait("document.getElementById('told-job')")
    assert read(page, "document.getElementById('told-job')").startswith(f"Job {job['id'][:8]} was")
    fields = page.run("['m', 'n', 'k', 'dtype'].map((one) => document.getElementById(one).value)")
    assert fields == ["300", "100", "200", "float32"]
    events = json.loads(saved("Save for Perfetto"))["traceEvents"]
    names = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert [name.split(",")[1] for name in names] == [f" F = {job['plan']['f']}", " F = 300"]
    measured = [one["dur"] for one in events if one["ph"] == "X" and one["pid"] == 2]
    assert measured == [pytest.approx(1e6 * job["timings"]["cpu_seconds"])]
    assert page.problems == []


def test_the_page_reconnects_to_a_restarted_service(page: Page, start_server: Start) -> None:
    server = start_server()
    server.wait_ready()
    show(page, f"{server.url}/#view=jobs")
    live = "document.querySelector('.live')"
    server.stop()
    page.wait(f"{live}.textContent.startsWith('Not connected')")
    server.restart()
    server.wait_ready()
    job_id = server.post_job(np.ones((5, 5)), np.ones((5, 5)))
    page.wait(f"{live}.textContent === 'Live' && {CARD.format(job_id)}")


def test_one_key_opens_every_view(page: Page, start_server: Start) -> None:
    key = "correct-horse-battery-staple-0123456789"
    server = start_server(api_key=key)
    show(page, f"{server.url}/#view=jobs")
    page.wait("document.getElementById('key')")
    page.run(f"document.getElementById('key').value = {json.dumps(key)}; "
             "document.querySelector('#notice form').requestSubmit(); null")  # fmt: skip
    page.wait("document.querySelector('.live').textContent === 'Live'")
    for view in ("storage", "explorer&device=here", "ladder", "jobs"):
        show(page, f"{server.url}/#view={view}")
        assert page.run("document.getElementById('key')") is None
    assert page.run("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 1, ""]
