"""Takes the pictures of the wave explorer that the documents show, from docs/explorer.html.

Run `make explorer`, or `python -m docs.explorer_pictures`; it needs Chromium.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.common.tables import ROOT
from docs.browser import Page, start_browser
from docs.explorer_page import PAGE


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the page.

    Attributes:
        path: Its file.
        address: What the page shows, after the #.
        width: Width of the window in pixels.
        height: Height of the window.
    """

    path: Path
    address: str
    width: int
    height: int

    def take(self, page: Page) -> bytes:
        """The picture as a PNG file."""
        page.resize(self.width, self.height)
        page.open("about:blank")
        page.open(f"{PAGE.as_uri()}#{self.address}")
        page.wait("document.getElementById('view').dataset.shown")
        return page.take_picture()


_MEASURED: Final = "m=4096&n=4096&k=4096&dtype=float32&device=host-h100&sms=8&guess=500"


PICTURES: Final = {
    "opening": Picture(ROOT / "docs" / "explorer.png", "", 1440, 1330),
    "measured": Picture(ROOT / "docs" / "explorer-measured.png", _MEASURED, 1440, 1500),
}


def main() -> None:
    """Write all pictures."""
    with start_browser() as browser:
        page = browser.open_page()
        for picture in PICTURES.values():
            picture.path.write_bytes(picture.take(page))


if __name__ == "__main__":
    main()
