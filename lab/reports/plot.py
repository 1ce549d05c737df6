"""Plots of figures: what they show, and how matplotlib draws it.

matplotlib is imported only here and only when a plot is drawn.
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
"""Okabe and Ito's, which colour-blind readers tell apart."""

_MARKERS: Final = "osD^v*"
_DOTS_PER_INCH: Final = 150
_PALETTE: Final = 48
_TITLE_CHARACTERS: Final = 62
"""Characters of a title that fit the width of one panel."""


@dataclass(frozen=True, slots=True)
class Line:
    """Points joined by a line; those of the reference are dashed.

    Attributes:
        label: Its words in the legend.
        x: Abscissas.
        y: Ordinates, as many.
        reference: Whether these are another machine's figures.
        colour: Lines of the same number have the same colour and marker.
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
        title: What they show.
        x_label: Quantity of the abscissa.
        y_label: Quantity of the ordinate, with its unit.
        lines: At least one.
        powers_of_two: Whether the abscissa is logarithmic, with a tick at each of its points.
        logarithmic: Whether the ordinate is logarithmic; otherwise it begins at 0.
        y_unit: Unit that takes prefixes at the ticks ("s": 20 µs); "" for plain numbers.
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
        name: End of the file's name; "" where an experiment has one plot only.
        title: What is shown; the hardware is added when it is drawn.
        panels: From left to right.
        same_y: Whether all share one ordinate.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    same_y: bool = False


def require_drawing() -> None:
    """Check that plots can be drawn, without importing what draws them.

    Raises:
        DrawingUnavailable: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise DrawingUnavailable(
            "matplotlib is not installed, which draws the plots; wavetrim's extra reproduce "
            "brings it"
        )


def draw_plot(plot: Plot, hardware: str) -> bytes:
    """A PNG file with the hardware in its title.

    Args:
        plot: What to draw.
        hardware: What the figures were measured on.

    Raises:
        DrawingUnavailable: matplotlib is not installed.
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
    """The picture with a palette: a third of the bytes, and the lines look as before."""
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
    # Below the axes, where it hides nothing.
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
