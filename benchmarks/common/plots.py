"""Plots as PNG files that name the figures they show, so that one of other figures is found."""

import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KEY: Final = "Figures"
"""Of the PNG's text that names what was drawn."""


def digest(figures: Any) -> str:
    """Names figures that are ready for JSON."""
    return hashlib.sha256(json.dumps(figures).encode()).hexdigest()


def save_plot(figure: "Figure", figures: str) -> bytes:
    """The PNG. The same figures give the same bytes.

    Args:
        figure: What is drawn.
        figures: The digest of what it shows.
    """
    data = io.BytesIO()
    figure.savefig(data, format="png", metadata={"Software": None, _KEY: figures})
    return data.getvalue()


def read_digest(png: Path) -> str | None:
    """The digest of what a plot shows; None where it names none."""
    from PIL import Image

    with Image.open(png) as image:
        return image.info.get(_KEY)
