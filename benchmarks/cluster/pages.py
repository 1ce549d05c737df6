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
    """The page with the measured figures, and those of the model."""
    documents = read_documents()
    for name, render in (("overhead", render_overhead), ("jobs", render_jobs)):
        parts = [f"{describe(one)}:\n\n{render(one)}" for one in documents]
        text = fill_section(text, name, "\n\n".join(parts))
    # The model says the same on each machine.
    for name, render in (("worth", render_worth), ("streams", render_streams)):
        text = fill_section(text, name, render(documents[0]))
    return text


def describe(document: Mapping[str, Any]) -> str:
    """The machine and commit of a run."""
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


def render_streams(document: Mapping[str, Any]) -> str:
    """Predicted jobs a second by the number of nodes there are."""
    head = ("M = N = K", "B", "network, Gbit/s", "1 there", "2 there", "8 there", "100 there")
    lines = [
        (str(row["side"]), "stays" if row["b_stays"] else "another each time",
         str(row["network_gbits"]), *(f"{jobs:.3g}" for jobs in row["jobs_per_second"]))
        for row in document["streams"]
    ]  # fmt: skip
    return render_table(head, lines)


if __name__ == "__main__":
    main()
