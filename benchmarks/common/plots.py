"""Plots as PNG files with a digest of the figures they show, so that an outdated plot is found."""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common.tables import ROOT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS: Final = ROOT / "docs"
KEY: Final = "Figures"
"""Name of the PNG's text field that holds the digest."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    Attributes:
        file: Its file.
        figures: What it shows, ready for JSON.
        inches: Width and height.
        dots: Dots per inch.
        draw: Draws it.
    """

    file: Path
    figures: Any
    inches: tuple[float, float]
    dots: int
    draw: Callable[["Figure"], None]

    @property
    def digest(self) -> str:
        """The digest of the figures."""
        return hashlib.sha256(json.dumps(self.figures).encode()).hexdigest()

    def render(self) -> bytes:
        """The PNG. The same figures give the same bytes."""
        from matplotlib.figure import Figure

        figure, data = Figure(self.inches, self.dots, layout="constrained"), io.BytesIO()
        self.draw(figure)
        figure.savefig(data, format="png", metadata={"Software": None, KEY: self.digest})
        return data.getvalue()
