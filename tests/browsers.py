"""A headless Chromium for tests: one `browser` for all modules, a `tab` for each module."""

import base64
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from docs.browser import Browser, Page, start_browser
from tests.environment import ROOT

AXE = ROOT / "tests" / "page" / "vendor" / "axe.min.js"

SHOWN = "document.getElementById('view').dataset.shown === location.hash && location.hash"
"""True once the page has drawn what its address says."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser that reaches this machine only."""
    with start_browser() as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    """A tab for a module's tests: to open one takes half a second of a core."""
    return browser.open_page()


@pytest.fixture
def page(tab: Page) -> Page:
    """The tab at a desktop's size. It still shows what the last test left."""
    tab.resize(1280, 900)
    tab.requests.clear()
    tab.problems.clear()
    return tab


@pytest.fixture
def saved(page: Page) -> Callable[[str], bytes]:
    """Presses a button that saves a file; returns the file's bytes."""

    def save(button: str) -> bytes:
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


def show(page: Page, url: str) -> None:
    """Open a page at an address, and wait until it is drawn."""
    page.open(url)
    page.wait(SHOWN)


def show_anew(page: Page, url: str) -> None:
    """Load a page again, even where only what follows the # differs, and wait until it is drawn."""
    page.open("about:blank")
    page.requests.clear()
    show(page, url)


def go(page: Page, script: str) -> None:
    """Run a script that changes the address, and wait until the page is drawn again."""
    before = page.run("location.hash")
    page.run(f"{script}; null")
    page.wait(f"location.hash !== {before!r} && {SHOWN}")


def find_barriers(page: Page) -> list[Any]:
    """Serious accessibility problems that axe finds in the page, with their elements."""
    page.run(f"{AXE.read_text(encoding='utf-8')}; null")
    passed, found = page.run(
        "axe.run().then(({ passes, violations }) => [passes.length, violations"
        ".filter(({ impact }) => ['serious', 'critical'].includes(impact))"
        ".map(({ id, nodes }) => [id, nodes.map((node) => node.html)])])"
    )
    assert passed > 20, "axe has looked at little"
    barriers: list[Any] = found
    return barriers


def read_picture(file: BytesIO | Path) -> NDArray[Any]:
    """The pixels of a picture: rows, columns, and colours from 0 to 1."""
    with Image.open(file) as image:
        return np.asarray(image) / 255


def expect_picture(drawn: bytes, kept: Path) -> None:
    """Assert that a picture looks like the one in a file.

    Means over squares are compared, because fonts differ among machines and times among runs.
    """
    new, old = read_picture(BytesIO(drawn)), read_picture(kept)
    assert new.shape == old.shape
    difference = np.abs(_shrink(new) - _shrink(old))
    assert difference.max() < 0.25
    assert difference.mean() < 0.01


def _shrink(picture: NDArray[Any], side: int = 40) -> NDArray[Any]:
    rows, columns = picture.shape[0] // side, picture.shape[1] // side
    squares = picture[: rows * side, : columns * side, :3]
    means: NDArray[Any] = squares.reshape(rows, side, columns, side, 3).mean(axis=(1, 3))
    return means
