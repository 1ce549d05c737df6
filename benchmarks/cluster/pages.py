"""Writes docs/scale.md's tables from results/cluster-*.json; `make figures` runs it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.common.tables import (
    RESULTS,
    ROOT,
    fill_section,
    render_table,
    show_ms,
    write_page,
)

SCALE: Final = ROOT / "docs" / "scale.md"


def main() -> None:
    """Fill the page."""
    write_page(SCALE, fill_scale)


def read_documents() -> list[dict[str, Any]]:
    """The results files."""
    files = sorted(Path(RESULTS).glob("cluster-*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def fill_scale(text: str) -> str:
    """The page with what was measured, and what the model says."""
    documents = read_documents()
    sections = {"overhead": render_overhead, "jobs": render_jobs, "worth": render_worth}
    for name, render in sections.items():
        parts = [f"{describe(one)}:\n\n{render(one)}" for one in documents]
        text = fill_section(text, name, "\n\n".join(parts))
    return text


def render_line(document: Mapping[str, Any]) -> str:
    """One line for the README: what a node's call costs, nodes and head on the same cores."""
    cells = [
        f"{show_ms(row['node_seconds'])} ms at {row['size']}² ({show_ms(row['here_seconds'])})"
        for row in document["overhead"]
    ]
    return f"A product through a node, and without one: {', '.join(cells)}."


def describe(document: Mapping[str, Any]) -> str:
    """What a run was made on."""
    hardware = document["hardware"]
    return (
        f"{document['nodes']} nodes of one thread and their head on {hardware['cores']} cores of "
        f"{hardware['cpu']}, Python {document['versions']['python']}, commit {document['commit']}"
    )


def render_overhead(document: Mapping[str, Any]) -> str:
    """Medians through both engines."""
    head = ("M = N = K", "this machine's engine, ms", "a node, ms", "runs")
    cells = (
        (str(row["size"]), show_ms(row["here_seconds"]), show_ms(row["node_seconds"]),
         str(row["runs"]))
        for row in document["overhead"]
    )  # fmt: skip
    return render_table(head, cells)


def render_jobs(document: Mapping[str, Any]) -> str:
    """Mixed jobs with and without nodes."""
    head = ("nodes", "jobs", "seconds", "jobs a second", "accepted a second", "by nodes")
    cells = (
        (str(row["nodes"]), str(row["jobs"]), f"{row['seconds']:.1f}",
         f"{row['jobs'] / row['seconds']:.1f}", f"{row['accepted_per_second']:.0f}",
         str(row["by_nodes"]))
        for row in document["jobs"]
    )  # fmt: skip
    return render_table(head, cells)


def render_worth(document: Mapping[str, Any]) -> str:
    """Predicted milliseconds by the number of nodes there are, and how many of them are used."""
    counts = (1, 2, 8, 100)
    head = ("M × N × K", "network, Gbit/s", *(f"{count} there" for count in counts))
    lines = []
    for row in document["worth"]:
        shown = zip(row["seconds"], row["used"], strict=True)
        cells = [f"{show_ms(seconds)} ({used})" for seconds, used in shown]
        lines.append((f"{row['m']} × {row['n']} × {row['k']}", str(row["network_gbits"]), *cells))
    return render_table(head, lines)


if __name__ == "__main__":
    main()
