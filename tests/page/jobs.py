"""The page's jobs, for tests: cards, notices, files that are chosen, and a tab that is hidden."""

import json
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docs.browser import Page

CARD: Final = "document.querySelector('[data-job=\"{}\"]')"
LIVE: Final = "document.querySelector('.live').textContent === 'Live'"
NOTICE: Final = "document.getElementById('notice').textContent"
OLDER: Final = (
    "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Older jobs')"
)


def read(page: Page, expression: str) -> str:
    """The text of an element."""
    return str(page.run(f"{expression}.textContent"))


def hide(page: Page, is_hidden: bool) -> None:
    """Let the tab be hidden behind another, or be shown again."""
    page.run(f"""Object.defineProperty(document, 'hidden', {{
        value: {json.dumps(is_hidden)}, configurable: true,
    }}); document.dispatchEvent(new Event('visibilitychange')); null""")


def choose_file(page: Page, zone: str, path: Path, matrix: NDArray[np.generic]) -> None:
    """Choose a file of this machine, written anew, and wait until the page has looked at it."""
    np.save(path, matrix)
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    found = page.call("DOM.querySelector", nodeId=root, selector=f"#file-{zone}")
    page.call("DOM.setFileInputFiles", nodeId=found["nodeId"], files=[str(path)])
    page.wait(f"document.getElementById('told-{zone}').textContent.startsWith({path.name!r})")


def multiply(page: Page) -> None:
    """Press Multiply."""
    page.run("document.getElementById('product').requestSubmit(); null")
