"""The page's jobs, for tests: cards, notices, files that are chosen, and a tab that is hidden."""

import json

import numpy as np

CARD = "document.querySelector('[data-job=\"{}\"]')"
LIVE = "document.querySelector('.live').textContent === 'Live'"
NOTICE = "document.getElementById('notice').textContent"
OLDER = "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Older jobs')"


def hide(page, is_hidden):
    """Let the tab be hidden behind another, or be shown again."""
    page.run(f"""Object.defineProperty(document, 'hidden', {{
        value: {json.dumps(is_hidden)}, configurable: true,
    }}); document.dispatchEvent(new Event('visibilitychange')); null""")


def choose_file(page, zone, path, matrix):
    """Choose a file of this machine, written anew, and wait until the page has looked at it."""
    np.save(path, matrix)
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    found = page.call("DOM.querySelector", nodeId=root, selector=f"#file-{zone}")
    page.call("DOM.setFileInputFiles", nodeId=found["nodeId"], files=[str(path)])
    page.wait(f"document.getElementById('told-{zone}').textContent.startsWith({path.name!r})")


def multiply(page):
    """Press Multiply."""
    page.run("document.getElementById('product').requestSubmit(); null")
