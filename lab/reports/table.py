"""Tables of figures, as Markdown and as CSV."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Row = Mapping[str, str | int | float | bool | None]
"""Values by column name; None for a missing value."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text cells.

    Attributes:
        title: Title, with units.
        head: Names of the columns.
        rows: Rows with as many cells.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def format_markdown(table: Table) -> str:
    """The table in Markdown; the first column is aligned left, the others right."""
    rule = ("---", *("---:" for _ in table.head[1:]))
    lines = ("| " + " | ".join(cells) + " |" for cells in (table.head, rule, *table.rows))
    return "\n".join((f"**{table.title}**", "", *lines))


def format_csv(rows: Sequence[Row]) -> str:
    """The rows in CSV with a header; floats have all their digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def format_milliseconds(seconds: float | None) -> str:
    """Milliseconds with four significant digits; empty for None."""
    return "" if seconds is None else format_digits(1e3 * seconds)


def format_ratio(ratio: float | None) -> str:
    """Two decimals; empty for None."""
    return "" if ratio is None else f"{ratio:.2f}"


def format_gflops(gflops: float | None) -> str:
    """Four significant digits; empty for None."""
    return "" if gflops is None else format_digits(gflops)


def format_digits(value: float) -> str:
    """Four significant digits without an exponent."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
