"""Takes the pictures of docs/page.md: jobs, storage and ladder of a service without a GPU.

Run `make explorer`, or `python -m docs.page_pictures`; it needs Chromium.
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
from docs.session import serve
from wavetrim.client import Client

SETTINGS: Final = {"devices": "none", "cpu_threads": "1"}
"""What the service of the pictures has: what every machine has."""

_PRODUCTS: Final = ((900, 700, 800), (600, 600, 600), (1200, 300, 500), (700, 900, 400))
_DROPPED: Final = ((500, 400), (400, 300))


@dataclass(frozen=True, slots=True)
class ViewPicture:
    """A picture of a view.

    Attributes:
        path: Its file.
        address: What the page shows, after the #.
        width: Width of the window in pixels.
        height: Height of the window.
        dark: Whether its user prefers dark colours.
        ready: What is true once all is there.
        drops: Whether two files are multiplied before.
    """

    path: Path
    address: str
    width: int
    height: int
    ready: str
    dark: bool = False
    drops: bool = False

    def take(self, page: Page, url: str) -> bytes:
        """The picture as a PNG file."""
        page.resize(self.width, self.height, dark=self.dark)
        page.open("about:blank")
        page.open(f"{url}/#{self.address}")
        page.wait(f"document.getElementById('view').dataset.shown && {self.ready}")
        if self.drops:
            multiply_dropped(page)
        return page.take_picture()


def _find_jobs(count: int) -> str:
    """So many jobs are done, each with its product, which is asked for when the job is there."""
    return (
        f"document.querySelectorAll('.job[data-state=succeeded]').length >= {count}"
        " && ![...document.querySelectorAll('.product')].some((one) => one.textContent === '…')"
    )


_JOBS: Final = _find_jobs(len(_PRODUCTS))
_ROWS: Final = "document.querySelectorAll('[data-matrix]').length > 5"
_SOURCE: Final = "document.querySelector('.source')"

_DOCS: Final = ROOT / "docs"
PICTURES: Final = {
    "storage": ViewPicture(
        _DOCS / "page-storage.png", "view=storage", 1440, 1260, _ROWS, dark=True
    ),
    "phone": ViewPicture(_DOCS / "page-phone.png", "view=jobs", 360, 1200, _JOBS, dark=True),
    "ladder": ViewPicture(_DOCS / "page-ladder.png", "view=ladder", 1440, 1700, _SOURCE),
    "jobs": ViewPicture(_DOCS / "page-jobs.png", "view=jobs", 1440, 1010, _JOBS, drops=True),
}
"""The last one adds to what the service has; each of the others is the same when taken alone."""


def main() -> None:
    """Write all pictures."""
    with (
        tempfile.TemporaryDirectory(prefix="wavetrim-pictures-") as folder,
        serve(folder, **SETTINGS) as address,
        start_browser() as browser,
    ):
        fill_service(f"http://{address}")
        page = browser.open_page()
        for picture in PICTURES.values():
            picture.path.write_bytes(picture.take(page, f"http://{address}"))


def fill_service(url: str) -> None:
    """Let a service have some jobs and matrices."""
    with Client(url) as client:
        for m, n, k in _PRODUCTS:
            client.submit(client.put(make_matrix(m, k)), client.put(make_matrix(k, n))).wait()


def multiply_dropped(page: Page) -> None:
    """Drop two files on the page, and wait for what it finds of their product."""
    for name, shape in zip("ab", _DROPPED, strict=True):
        drop_file(page, name, f"{name.upper()}.npy", make_matrix(*shape))
    page.run("document.getElementById('product').requestSubmit(); null")
    page.wait("document.getElementById('outcome').dataset.right")
    page.wait(_find_jobs(len(_PRODUCTS) + 1))  # the list hears of it by a connection of its own


def drop_file(page: Page, zone: str, name: str, content: NDArray[np.generic] | bytes) -> None:
    """Drop a file where a user of the page would, and wait until it is looked at."""
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
