"""The page's storage: matrices, devices, arena and profile."""

import shutil
import signal

import numpy as np

from tests.browsers import go, read, show, show_anew
from tests.matrices import make_matrix
from tests.processes import wait_until


def show_bytes(size):
    power = min((size.bit_length() - 1) // 10, 4)
    value = size / 1024**power
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{shown} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def row(matrix):
    return f"document.querySelector('[data-matrix=\"{matrix}\"]')"


def test_matrices_are_shown_with_size_age_and_use(page, server):
    stored = server.upload(make_matrix(30, 20, "float32", seed=1))
    slow = server.upload(make_matrix(2000, 2000, "int64", seed=1))
    job = server.post_job(slow, slow)
    show(page, f"{server.url}/#view=storage")
    cells = page.run(f"[...{row(stored)}.children].map((one) => one.textContent)")
    assert cells[:3] == [stored, "30 × 20 float32", "2.47 KiB"]
    assert cells[3].endswith((" s ago", "just now"))
    assert cells[4:6] == ["disk", "–"]
    roles = f"operand A of {job[:8]}, operand B of {job[:8]}"
    page.wait(f"{row(slow)}.children[5].textContent === '{roles}, in use'")
    assert page.run(f"{row(slow)}.querySelector('[aria-label^=Delete]').disabled")
    server.client.delete(f"/v1/jobs/{job}")
    page.wait(f"!{row(slow)}.querySelector('[aria-label^=Delete]').disabled")
    done = server.wait_job(server.post_job(stored, server.upload(np.ones((20, 3)).astype("f4"))))
    show_anew(page, f"{server.url}/#view=storage")
    assert (
        page.run(f"{row(done['result'])}.children[5].textContent") == f"result of {done['id'][:8]}"
    )
    assert page.problems == []


def test_a_matrix_is_deleted_after_a_confirmation(page, server):
    kept, gone = (server.upload(np.ones((4, size))) for size in (4, 5))
    show_anew(page, f"{server.url}/#view=storage")
    for matrix, second in ((kept, "Keep"), (gone, "Yes")):
        page.run(f"{row(matrix)}.querySelector('[aria-label^=Delete]').click(); null")
        assert server.client.get(f"/v1/matrices/{matrix}").status_code == 200
        page.run(f"{row(matrix)}.querySelector('[aria-label^={second}]').click(); null")
    page.wait(f"{row(gone)} === null")
    assert server.client.get(f"/v1/matrices/{gone}").status_code == 404
    assert server.client.get(f"/v1/matrices/{kept}").status_code == 200
    assert page.run(f"{row(kept)} !== null")


def test_devices_arena_and_profile_are_those_of_the_service(page, server):
    a = server.upload(make_matrix(900, 700, "float64", seed=1))
    b = server.upload(make_matrix(700, 800, "float64", seed=2))

    def has_learnt():
        server.wait_job(server.post_job(a, b))
        return server.client.get("/v1/profile").json()["corrections"]

    def describe(correction):
        factor = correction["factor"]
        more = f"{100 * abs(factor - 1):.3g}% {'slower' if factor > 1 else 'faster'}"
        shown = more if factor < 2 else f"{factor:.3g} times as long"
        return f"{correction['kind']}{shown}{correction['runs']}"

    def shows_profile():  # the engine may tell of a further run between page and profile
        show_anew(page, f"{server.url}/#view=storage")
        profile, text = server.client.get("/v1/profile").json(), read(page, "#profile")
        assert profile["source"].replace("`", "") in text
        return all(describe(one) in text for one in profile["corrections"])

    wait_until(has_learnt)
    wait_until(shows_profile)
    arena = server.client.get("/v1/devices").json()["arena"]
    told = read(page, "#arena")
    assert f"Slabs{arena['slabs']}" in told
    disk = read(page, "#disk")
    size = shutil.disk_usage(server.data_dir).total
    assert f"% of {show_bytes(size)}" in disk
    assert f"All matrices at most{show_bytes(256 * 2**30)}" in disk
    assert "No GPU is used" in read(page, "#devices")
    assert page.run("document.getElementById('nodes').hidden")


def show_often(page, server):
    """Show the storage, which is loaded anew every 50 ms."""
    show_anew(page, f"{server.url}/#device=T4&threads=2")
    page.run("globalThis.setInterval = ((plain) => (run, ms) => plain(run, ms / 100))(setInterval);"
             "null")  # fmt: skip
    go(page, "location.hash = '#view=storage'")


def wait_asked(page, times):
    """Wait until the service was asked so often anew."""

    def asked():
        page.run("null")  # with its answer comes what the browser has asked for
        return sum(url.endswith("/v1/me") for url in page.requests) >= times

    page.requests.clear()
    wait_until(asked)


def test_a_key_that_is_typed_stays_after_another_was_refused(page, start_server):
    key = "correct-horse-battery-staple-0123456789"
    server = start_server(api_key=key)
    show_often(page, server)
    page.wait("document.getElementById('key')")
    field, kept = "document.getElementById('key')", "sessionStorage.getItem('wavetrim.key')"
    page.run(f"{field}.value = 'wrong'; {field}.form.requestSubmit(); null")
    page.wait("document.getElementById('notice').textContent.includes('The key was refused.')")
    page.run(f"{field}.value = {key[:9]!r}; document.getElementById('view').focus();"
             f"globalThis.typed = {field}; null")  # fmt: skip
    wait_asked(page, 5)
    assert page.run(f"{field} === typed && {field}.value") == key[:9]
    assert page.run("document.activeElement.id") == "view"
    assert page.run(kept) is None
    page.run(f"{field}.value = {key!r}; {field}.form.requestSubmit(); null")
    page.wait(f"{field} === null && document.getElementById('arena').textContent !== ''")
    assert page.run(kept) == key


def test_a_slow_service_is_asked_once_at_a_time(page, server):
    show_often(page, server)
    server.process.send_signal(signal.SIGSTOP)
    try:
        page.run("new Promise((done) => setTimeout(done, 200))")
        page.requests.clear()
        page.run("new Promise((done) => setTimeout(done, 1000))")
        assert page.requests == []
    finally:
        server.process.send_signal(signal.SIGCONT)
    wait_asked(page, 5)
