"""Tables in Markdown pages, each between the marks `<!-- NAME -->` and `<!-- /NAME -->`."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "benchmarks" / "results"
README: Final = ROOT / "README.md"
SHOWN: Final = "h100"
"""The machine whose results README and plots show."""


def fill_section(text: str, name: str, body: str) -> str:
    """Replace one marked section; its marks are on lines of their own, or both in one line."""
    pattern = re.compile(rf"(<!-- {name} -->)(\n?).*?(<!-- /{name} -->)", re.DOTALL)
    filled, count = pattern.subn(
        lambda match: f"{match[1]}{match[2]}{body}{match[2]}{match[3]}", text
    )
    if count != 1:
        raise ValueError(f"section {name}: found {count} times, expected once")
    return filled


def render_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def show(value: float | None, form: str = ".2f") -> str:
    """A figure; empty for None."""
    return "" if value is None else format(value, form)


def show_ms(seconds: float | None) -> str:
    """Milliseconds: three digits, or all before the point; empty for None."""
    if seconds is None:
        return ""
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"
