"""Plots: their description, and drawing by matplotlib.

matplotlib is imported only here, and only when a plot is drawn.
"""

import importlib.util
import io
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wavetrim.scheduler.errors import DrawingUnavailable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of Okabe and Ito, which colour-blind readers can distinguish."""

_MARKERS: Final = "osD^v*"
_DOTS_PER_INCH: Final = 150
_PALETTE: Final = 48
_TITLE_CHARACTERS: Final = 62
"""Characters of a title that fit the width of one panel."""


@dataclass(frozen=True, slots=True)
class Line:
    """Points joined by a line.

    Attributes:
        label: Label in the legend.
        x: Abscissas.
        y: Ordinates, as many.
        reference: Whether these are the reference's figures, drawn dashed.
        colour: Index of colour and marker.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    reference: bool = False
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines on one pair of axes.

    Attributes:
        title: Title of the panel.
        x_label: Quantity of the abscissa.
        y_label: Quantity of the ordinate, with its unit.
        lines: At least one line.
        powers_of_two: Whether the abscissa is logarithmic, with a tick at each point.
        logarithmic: Whether the ordinate is logarithmic; otherwise it begins at 0.
        y_unit: Unit of the ticks, with prefixes ("s": 20 µs); "" for plain numbers.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    powers_of_two: bool = False
    logarithmic: bool = False
    y_unit: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Panels side by side, in one file.

    Attributes:
        name: Suffix of the file's name; "" for the only plot of an experiment.
        title: Title; the hardware is added when it is drawn.
        panels: Panels from left to right.
        same_y: Whether all panels share one ordinate.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    same_y: bool = False


def require_drawing() -> None:
    """Check that matplotlib is installed, without importing it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise DrawingUnavailable(
            "matplotlib is not installed, which draws the plots; wavetrim's extra reproduce "
            "brings it"
        )


def draw_plot(plot: Plot, hardware: str) -> bytes:
    """Draw a plot as PNG, with the hardware in its title.

    Args:
        plot: The plot.
        hardware: Hardware of the measurement.
    """
    require_drawing()
    from matplotlib.figure import Figure

    count = len(plot.panels)
    figure = Figure(figsize=(1.6 + 5.2 * count, 5.4), dpi=_DOTS_PER_INCH, layout="constrained")
    width = _TITLE_CHARACTERS * count
    lines = (textwrap.fill(words, width) for words in (plot.title, hardware))
    figure.suptitle("\n".join(lines), fontsize=11)
    grid = figure.subplots(1, count, sharey=plot.same_y, squeeze=False)
    for axes, panel in zip(grid[0], plot.panels, strict=True):
        _draw_panel(axes, panel)
        if plot.same_y:
            axes.label_outer()
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return _reduce_colours(data)


def _reduce_colours(png: io.BytesIO) -> bytes:
    """Convert a PNG to a palette: a third of the bytes, and lines look the same."""
    from PIL import Image

    reduced = io.BytesIO()
    with Image.open(png) as image:
        palette = image.convert("RGB").quantize(_PALETTE, dither=Image.Dither.NONE)
        palette.save(reduced, format="png", optimize=True)
    return reduced.getvalue()


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    for line in panel.lines:
        axes.plot(
            line.x,
            line.y,
            label=line.label,
            color=_COLOURS[line.colour % len(_COLOURS)],
            marker=_MARKERS[line.colour % len(_MARKERS)],
            markerfacecolor="none" if line.reference else None,
            linestyle="--" if line.reference else "-",
        )
    _scale_axes(axes, panel)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label + (", logarithmic" if panel.logarithmic else ""))
    axes.grid(visible=True, which="major", alpha=0.35)
    # The legend is below the axes, where it hides nothing.
    columns = min(4, len(panel.lines))
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=columns)


def _scale_axes(axes: "Axes", panel: Panel) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullLocator

    points: list[Any] = sorted({x for line in panel.lines for x in line.x})
    if panel.powers_of_two:
        axes.set_xscale("log", base=2)
        axes.set_xticks(points, [f"{x:g}" for x in points])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    if panel.y_unit:
        axes.yaxis.set_major_formatter(EngFormatter(panel.y_unit))
