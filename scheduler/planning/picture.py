"""A plan as a picture for notebooks: C by waves, and seconds over F. One SVG, which loads nothing.

The same picture as the page's, without what moves there.
"""

from collections.abc import Iterator
from html import escape
from typing import Final

from wavetrim.scheduler.planning.drawing import describe_curve, find_near_f
from wavetrim.scheduler.planning.gpu_rows import GpuPart
from wavetrim.scheduler.planning.plan import Plan

_WAVES: Final = (
    *("#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c"),
    *("#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"),
)
"""Viridis, from the first wave to the last."""

_GPU, _CPU = "#0b6cb8", "#d95f02"
_SIDE: Final = 240
_LEFT: Final = 330
_TOP: Final = 24
"""Pixels: sides of both drawings, where the right one begins, and where both do."""

_MOST_BANDS: Final = 200
"""Of more waves, several share a colour; chosen."""


def draw_plan(plan: Plan) -> str:
    """The picture as HTML: an SVG."""
    drawn = "".join((*_draw_tiles(plan), *_draw_curve(plan)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _SIDE + 20}" '
        f'height="{_TOP + _SIDE + 24}" role="img" aria-label="{escape(str(plan))}" '
        f'font-family="sans-serif" font-size="12" fill="currentColor">{drawn}</svg>'
    )


def _draw_tiles(plan: Plan) -> Iterator[str]:
    """C: the GPUs' tiles coloured by wave, and the CPU's rows below."""
    yield _write(0, 14, f"C, {plan.waves} waves" if plan.waves != 1 else "C, 1 wave")
    for part in plan.gpu_parts:
        bands = min(part.waves, _MOST_BANDS)
        for band in range(bands):
            first, last = (part.waves * one // bands for one in (band, band + 1))
            colour = _WAVES[round(band / max(1, bands - 1) * (len(_WAVES) - 1))]
            yield f'<path d="{_outline(plan, part, first, last)}" fill="{colour}"/>'
    height = _SIDE * plan.f / plan.problem.m
    top = _TOP + _SIDE - height
    yield f'<rect x="0" y="{top:.1f}" width="{_SIDE}" height="{height:.1f}" fill="{_CPU}"/>'
    yield _write(0, _TOP + _SIDE + 18, f"F = {plan.f} of {plan.problem.m} rows on the CPU")


def _outline(plan: Plan, part: GpuPart, first: int, last: int) -> str:
    """The outline, as an SVG path, of the tiles of waves first…last-1, numbered along rows."""
    problem, across = part.problem, part.problem.tiles_per_tile_row
    tiles = problem.count_tiles(len(part.rows))

    def x(column: int) -> float:
        columns = part.columns.start + min(len(part.columns), column * problem.tile_n)
        return round(_SIDE * columns / plan.problem.n, 1)

    def y(row: int) -> float:
        rows = part.rows.start + min(len(part.rows), row * problem.tile_m)
        return round(_TOP + _SIDE * rows / plan.problem.m, 1)

    (top, left), (bottom, right) = (
        divmod(min(tiles, wave * problem.slots), across) for wave in (first, last)
    )
    below = bottom + (right > 0)
    if top == bottom:
        return f"M{x(left)} {y(top)}H{x(right)}V{y(below)}H{x(left)}Z"
    end = f"V{y(bottom)}H{x(right)}V{y(below)}H{x(0)}"
    return f"M{x(left)} {y(top)}H{x(across)}{end}V{y(top + (left > 0))}H{x(left)}Z"


def _draw_curve(plan: Plan) -> Iterator[str]:
    """Seconds over F near the split: the GPUs' stairs, the CPU's line, this F, a refused split."""
    near, points = find_near_f(plan), describe_curve(plan)
    shown = [one for one in points if one["f"] <= near]
    high = 1.1 * max(plan.predicted.total_seconds, *(one["gpu_seconds"] for one in shown))

    def locate(f: int, seconds: float) -> tuple[float, float]:
        return round(_LEFT + _SIDE * f / near, 1), round(_TOP + _SIDE * (1 - seconds / high), 1)

    yield _write(_LEFT, 14, f"Seconds over F, to {high:.3g} s")
    yield f'<path d="M{_LEFT} {_TOP}v{_SIDE}h{_SIDE}" fill="none" stroke="currentColor"/>'
    for name, colour, step in (("gpu_seconds", _GPU, "H{}V{}"), ("cpu_seconds", _CPU, "L{} {}")):
        (x, y), *others = (locate(one["f"], one[name]) for one in shown if one[name] <= high)
        path = f"M{x} {y}{''.join(step.format(*other) for other in others)}"
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if plan.refused is not None:
        x, y = locate(plan.refused.f, plan.refused.chosen_seconds)
        yield _write(x - 4, y + 4, "◇")
    x, y = locate(plan.f, plan.predicted.total_seconds)
    yield f'<circle cx="{x}" cy="{y}" r="5"/>'
    legend = f'<tspan fill="{_GPU}">GPU</tspan> <tspan fill="{_CPU}">CPU</tspan>'
    refused = ", ◇ gains too little" if plan.refused else ""
    yield f'<text x="{_LEFT}" y="{_TOP + _SIDE + 18}">{legend}, F to {near}{refused}</text>'


def _write(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'
