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
        dark: Whether its user prefers dark colours.
    """

    path: Path
    address: str
    width: int
    height: int
    dark: bool = False

    def take(self, page: Page) -> bytes:
        """The picture as a PNG file."""
        page.resize(self.width, self.height, dark=self.dark)
        page.open("about:blank")
        page.open(f"{PAGE.as_uri()}#{self.address}")
        page.wait("document.getElementById('view').dataset.shown")
        return page.take_picture()


_SPLIT: Final = "m=4096&n=4096&k=4096&dtype=float64&device=T4&threads=2"
_SHORT_K: Final = "m=16384&n=16384&k=256&dtype=float32&memory=pinned&device=H200&threads=16"
_SEVERAL: Final = "m=16384&n=16384&k=128&memory=pinned&dtype=float32&device=H200&gpus=2&threads=64"
_MEASURED: Final = "m=4096&n=4096&k=4096&dtype=float32&device=host-h200&sms=8&threads=16&guess=500"


def _name(address: str, name: str, width: int, height: int, *, dark: bool = False) -> Picture:
    return Picture(ROOT / "docs" / f"{name}.png", address, width, height, dark=dark)


PICTURES: Final = {
    "light": _name(_SPLIT, "explorer", 1440, 1330),
    "dark": _name(_SHORT_K, "explorer-dark", 1440, 1400, dark=True),
    "several": _name(_SEVERAL, "explorer-gpus", 1440, 1700),
    "measured": _name(_MEASURED, "explorer-measured", 1440, 1500),
    "phone": _name(f"{_SPLIT}&exercise=4&f=0", "explorer-phone", 360, 1600),
}


def main() -> None:
    """Write all pictures."""
    with start_browser() as browser:
        page = browser.open_page()
        for picture in PICTURES.values():
            picture.path.write_bytes(picture.take(page))


if __name__ == "__main__":
    main()
