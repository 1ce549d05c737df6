"""Takes the documents' pictures of the page: of docs/explorer.html, and of a service's jobs.

Run `make explorer`, or `python -m docs.pictures`; it needs Chromium.
"""

import base64
import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.tables import ROOT
from docs.browser import Page, start_browser
from docs.explorer_page import PAGE
from docs.session import serve
from wavetrim.client import Client


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the explorer.

    Attributes:
        path: Its file.
        address: What the page shows, after the #.
        height: Height of the window in pixels.
    """

    path: Path
    address: str
    height: int

    def take(self, page: Page) -> bytes:
        """The picture as a PNG file."""
        page.resize(1440, self.height)
        page.open("about:blank")
        page.open(f"{PAGE.as_uri()}#{self.address}")
        page.wait("document.getElementById('view').dataset.shown")
        return page.take_picture()


_MEASURED: Final = "m=4096&n=4096&k=4096&dtype=float32&device=host-h100&sms=8&guess=500"

PICTURES: Final = {
    "opening": Picture(ROOT / "docs" / "explorer.png", "", 1330),
    "measured": Picture(ROOT / "docs" / "explorer-measured.png", _MEASURED, 1500),
}

JOBS: Final = ROOT / "docs" / "page-jobs.png"

SETTINGS: Final = {"devices": "none", "cpu_threads": "1"}
"""Settings of the jobs' service: their picture is the same on every machine."""

_PRODUCTS: Final = ((900, 700, 800), (600, 600, 600), (1200, 300, 500), (700, 900, 400))
_DROPPED: Final = ((500, 400), (400, 300))


def _find_jobs(count: int) -> str:
    """Script: whether `count` jobs are done, and the page has loaded the product of each."""
    return (
        f"document.querySelectorAll('.job[data-state=succeeded]').length >= {count}"
        " && ![...document.querySelectorAll('.product')].some((one) => one.textContent === '…')"
    )


def main() -> None:
    """Write all pictures."""
    with (
        tempfile.TemporaryDirectory(prefix="wavetrim-pictures-") as folder,
        serve(folder, **SETTINGS) as address,
        start_browser() as browser,
    ):
        page = browser.open_page()
        for picture in PICTURES.values():
            picture.path.write_bytes(picture.take(page))
        fill_service(f"http://{address}")
        JOBS.write_bytes(take_jobs(page, f"http://{address}"))


def take_jobs(page: Page, url: str) -> bytes:
    """The jobs of a filled service, after a product of two dropped files, as a PNG file."""
    page.resize(1440, 1010)
    page.open("about:blank")
    page.open(f"{url}/#view=jobs")
    page.wait(f"document.getElementById('view').dataset.shown && {_find_jobs(len(_PRODUCTS))}")
    multiply_dropped(page)
    return page.take_picture()


def fill_service(url: str) -> None:
    """Give a service some jobs and matrices."""
    with Client(url) as client:
        for m, n, k in _PRODUCTS:
            client.submit(client.put(make_matrix(m, k)), client.put(make_matrix(k, n))).wait()


def multiply_dropped(page: Page) -> None:
    """Drop two files on the page, and wait for the outcome of their product."""
    for name, shape in zip("ab", _DROPPED, strict=True):
        drop_file(page, name, f"{name.upper()}.npy", make_matrix(*shape))
    page.run("document.getElementById('product').requestSubmit(); null")
    page.wait("document.getElementById('outcome').textContent")
    page.wait(_find_jobs(len(_PRODUCTS) + 1))  # the list has a connection of its own


def drop_file(page: Page, zone: str, name: str, content: NDArray[np.generic] | bytes) -> None:
    """Drop a file on a zone of the page, and wait until the page has checked it."""
    if not isinstance(content, bytes):
        file = io.BytesIO()
        np.save(file, content)
        content = file.getvalue()
    page.run(f"""(async () => {{
        const bytes = Uint8Array.from(atob({json.dumps(base64.b64encode(content).decode())}),
                                      (one) => one.charCodeAt(0));
        const carried = new DataTransfer();
        carried.items.add(new File([bytes], {json.dumps(name)}));
        const zone = document.querySelector('[data-zone={zone}]');
        zone.dispatchEvent(new DragEvent('drop', {{ dataTransfer: carried, cancelable: true }}));
    }})()""")
    page.wait(f"document.querySelector('[data-zone={zone}]').matches('.taken, .refused')")


def make_matrix(rows: int, columns: int) -> NDArray[np.float64]:
    """A matrix of random numbers, the same each time."""
    return np.random.default_rng(rows + columns).standard_normal((rows, columns))


if __name__ == "__main__":
    main()
