"""A headless Chromium for tests: `browser` is one for a module, `page` a tab for one test."""

from collections.abc import Iterator

import pytest

from docs.browser import Browser, Page, start_browser

SHOWN = "document.getElementById('view').dataset.shown === location.hash && location.hash"
"""True once the page shows what its address says."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that reaches this machine only."""
    with start_browser() as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    """One tab for a module: to open one takes half a second of a core."""
    return browser.open_page()


@pytest.fixture
def page(tab: Page) -> Page:
    """The tab, of a desktop's size. It still shows what the test before has left."""
    tab.resize(1280, 900)
    tab.requests.clear()
    tab.problems.clear()
    return tab


def show(page: Page, url: str) -> None:
    """Open the explorer at an address, and wait until it is drawn."""
    page.open(url)
    page.wait(SHOWN)


def go(page: Page, script: str) -> None:
    """Do something that makes another address, and wait until that is drawn."""
    before = page.run("location.hash")
    page.run(f"{script}; null")
    page.wait(f"location.hash !== {before!r} && {SHOWN}")
