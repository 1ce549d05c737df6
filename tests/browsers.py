"""A headless Chromium for tests: one `browser` for all modules, a `tab` for each module."""

import base64
import json
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from docs.browser import start_browser
from tests.environment import ROOT

AXE = ROOT / "tests" / "page" / "vendor" / "axe.min.js"

SHOWN = "document.getElementById('view').dataset.shown === location.hash && location.hash"
"""True once the page has drawn what its address says."""


@pytest.fixture(scope="session")
def browser():
    """A browser that reaches this machine only."""
    with start_browser() as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser):
    """A tab for a module's tests: to open one takes half a second of a core."""
    return browser.open_page()


@pytest.fixture
def page(tab):
    """The tab at a desktop's size. It still shows what the last test left."""
    tab.resize(1280, 900)
    tab.requests.clear()
    tab.problems.clear()
    return tab


@pytest.fixture
def saved(page):
    """Presses a button that saves a file; returns the file's bytes."""

    def save(button):
        page.run("globalThis.kept = null; URL.createObjectURL = ((make) => (blob) => {"
                 "globalThis.kept = blob; return make.call(URL, blob)"
                 "})(URL.createObjectURL); null")  # fmt: skip
        page.run("[...document.querySelectorAll('button')]"
                 f".find((one) => one.textContent === {json.dumps(button)}).click()")  # fmt: skip
        page.wait("globalThis.kept !== null && globalThis.kept.type !== 'image/svg+xml'")
        text = page.run("""new Promise((done) => {
            const reader = new FileReader();
            reader.onload = () => done(reader.result.split(',')[1]);
            reader.readAsDataURL(globalThis.kept);
        })""")
        return base64.b64decode(text)

    return save


def show(page, url):
    """Open a page at an address, and wait until it is drawn."""
    page.open(url)
    page.wait(SHOWN)


def show_anew(page, url):
    """Load a page again, even where only what follows the # differs, and wait until it is drawn."""
    page.open("about:blank")
    page.requests.clear()
    show(page, url)


def go(page, script):
    """Run a script that changes the address, and wait until the page is drawn again."""
    before = page.run("location.hash")
    page.run(f"{script}; null")
    page.wait(f"location.hash !== {before!r} && {SHOWN}")


def read(page, selector):
    """The text of an element."""
    return page.run(f"document.querySelector({json.dumps(selector)}).textContent")


def read_all(page, selector):
    """The texts of all such elements."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return page.run(f"{found}.map((one) => one.textContent)")


def count(page, selector):
    """How many such elements there are."""
    return page.run(f"document.querySelectorAll({json.dumps(selector)}).length")


def expect_accessible(page, url, *, width, dark):
    """Assert that axe finds nothing in a page that fits its window."""
    page.resize(width, 900, dark=dark)
    show_anew(page, url)
    assert page.run("document.documentElement.scrollWidth") == width
    assert find_barriers(page) == []


def find_barriers(page):
    """Serious accessibility problems that axe finds in the page, with their elements."""
    page.run(f"{AXE.read_text(encoding='utf-8')}; null")
    passed, found = page.run(
        "axe.run().then(({ passes, violations }) => [passes.length, violations"
        ".filter(({ impact }) => ['serious', 'critical'].includes(impact))"
        ".map(({ id, nodes }) => [id, nodes.map((node) => node.html)])])"
    )
    assert passed > 20, "axe has looked at little"
    return found


def read_picture(file):
    """The pixels of a picture: rows, columns, and colours from 0 to 1."""
    with Image.open(file) as image:
        return np.asarray(image) / 255


def expect_picture(drawn, kept):
    """Assert that a picture looks like the one in a file.

    Means over squares are compared, because fonts differ among machines and times among runs.
    """
    new, old = read_picture(BytesIO(drawn)), read_picture(kept)
    assert new.shape == old.shape
    difference = np.abs(_shrink(new) - _shrink(old))
    assert difference.max() < 0.25
    assert difference.mean() < 0.01


def _shrink(picture, side=40):
    rows, columns = picture.shape[0] // side, picture.shape[1] // side
    squares = picture[: rows * side, : columns * side, :3]
    return squares.reshape(rows, side, columns, side, 3).mean(axis=(1, 3))
