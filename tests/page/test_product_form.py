"""The form of the page's jobs: what it refuses, what it leaves, and a service that starts again."""

import numpy as np
import pytest

from docs.pictures import drop_file
from tests.browsers import read, show, show_anew
from tests.matrices import make_matrix
from tests.page.test_jobs import LIVE, NOTICE
from tests.server import NPY, encode_npy

STEPS = "document.querySelector('.steps')"
OUTCOME = "document.getElementById('outcome').textContent"
ENDED = f"{STEPS}.textContent.includes('Stopped by an error')"


def multiply(page):
    """Press Multiply."""
    page.run("document.getElementById('product').requestSubmit(); null")


def list_matrices(server):
    listed = server.client.get("/v1/matrices?limit=200").json()["matrices"]
    return {matrix["id"] for matrix in listed}


def test_a_first_product_needs_no_file(page, server):
    before = list_matrices(server)
    show_anew(page, f"{server.url}/#view=jobs")
    page.run("[...document.querySelectorAll('#product button')]"
             ".find((one) => one.textContent === 'Take two random matrices').click()")  # fmt: skip
    page.wait("document.querySelectorAll('.zone.taken').length === 2")
    multiply(page)
    page.wait(OUTCOME)
    assert "all 600,000 elements of C have passed the check" in page.run(OUTCOME)
    assert len(list_matrices(server) - before) == 3
    assert page.problems == []


def test_a_job_that_is_refused_leaves_no_matrices(page, server):
    before = list_matrices(server)
    show_anew(page, f"{server.url}/#view=jobs")
    for name in "ab":
        drop_file(page, name, f"{name}.npy", np.ones((5, 5)))
    page.run("document.getElementById('job-f').value = 6; null")
    multiply(page)
    page.wait(ENDED)
    assert read(page, "#notice").startswith("f is 6;")
    assert list_matrices(server) == before
    page.run("document.getElementById('job-f').value = 5; null")
    multiply(page)
    page.wait(OUTCOME)
    assert page.run(NOTICE) == ""
    assert len(list_matrices(server) - before) == 3


def test_a_file_that_cannot_be_sent_leaves_none_of_the_other(page, server, tmp_path):
    before = list_matrices(server)
    show_anew(page, f"{server.url}/#view=jobs")
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    for name in "ab":
        path = tmp_path / f"{name}.npy"
        np.save(path, np.ones((5, 5)))
        found = page.call("DOM.querySelector", nodeId=root, selector=f"#file-{name}")
        page.call("DOM.setFileInputFiles", nodeId=found["nodeId"], files=[str(path)])
        page.wait(f"document.getElementById('told-{name}').textContent.startsWith({path.name!r})")
    np.save(path, np.ones((5, 6)))  # a browser does not read what has changed
    multiply(page)
    page.wait(ENDED)
    assert read(page, "#notice") == "The file cannot be read. Choose it again."
    assert list_matrices(server) == before


def test_a_service_that_starts_again_during_the_job_does_not_end_the_form(page, start_server):
    server = start_server()
    show(page, f"{server.url}/#view=jobs")
    page.wait(LIVE)
    for name in "ab":
        drop_file(page, name, f"{name}.npy", make_matrix(1000, 1000, "int64", seed=1))
    multiply(page)
    page.wait(f"{STEPS}.textContent.includes('is posted')")
    server.kill()
    page.wait(f"!({LIVE})")
    server.restart()
    page.wait(f"{OUTCOME} || {ENDED}", seconds=60)
    assert page.run(OUTCOME).startswith("✓ Right")


def describe(*, shape="(3, 3)", descr="'<f8'", count=9):
    """A .npy file by its header, with elements of eight bytes."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return (
        b"\x93NUMPY\x01\x00"
        + len(header).to_bytes(2, "little")
        + header.encode()
        + bytes(8 * count)
    )


FILES = [
    (encode_npy(np.zeros((3, 3), "i4,i4")), "has elements of several fields. The service takes"),
    (describe(descr="'|O'"), "has elements of object. The service takes"),
    (describe(descr="'constructor'"), "has elements of constructor. The service takes"),
    (describe(descr="None"), "has elements of no number. The service takes"),
    (describe(descr="'>f8'"), "has elements of float64. The service takes"),
    (b"1 2 3", "is not a .npy file: it looks like text"),
    (describe()[:8], "is not a .npy file"),
    (describe()[:-1], "has 199 bytes; its header announces 200"),
]


@pytest.mark.parametrize(("content", "words"), FILES, ids=[words for _, words in FILES])
def test_files_that_the_service_refuses_are_refused_in_words(page, server, content, words):
    answer = server.client.post("/v1/matrices", content=content, headers=NPY)
    assert answer.status_code in (400, 415)
    show_anew(page, f"{server.url}/#view=jobs")
    drop_file(page, "a", "A.npy", content)
    assert read(page, "#told-a").startswith(f"A.npy {words}")


PRODUCTS = {
    "no rows": (encode_npy(np.zeros((0, 2))), encode_npy(np.zeros((2, 3)))),
    "no terms": (encode_npy(np.zeros((2, 0))), encode_npy(np.zeros((0, 3)))),
    "a type by its name": (describe(descr="'float64'"), describe(descr="'f8'")),
}


@pytest.mark.parametrize("files", PRODUCTS.values(), ids=PRODUCTS)
def test_files_that_the_service_takes_are_multiplied_and_checked(page, server, files):
    show_anew(page, f"{server.url}/#view=jobs")
    for name, content in zip("ab", files, strict=True):
        drop_file(page, name, f"{name}.npy", content)
    multiply(page)
    page.wait(f"{OUTCOME} || {ENDED}", seconds=30)
    assert page.run(OUTCOME).startswith("✓ Right")
