"""What the check of products misses, and what it costs, from results/verify.json."""

import json
from pathlib import Path
from typing import Any


def render_verify(folder: Path) -> str:
    """Two sentences with the figures that were measured."""
    document = json.loads((folder / "verify.json").read_text(encoding="utf-8"))
    return f"{describe_missed(document)}\n{describe_cost(document)}"


def describe_missed(document: dict[str, Any]) -> str:
    """How many damaged products passed, and how many right ones failed."""
    rows, right = document["rows"], document["right"]
    missed, damaged = (sum(row[name] for row in rows) for name in ("missed", "tries"))
    alarms, sound = (sum(row[name] for row in right) for name in ("false_alarms", "tries"))
    return (
        f"Of {damaged:,} products that `python -m benchmarks.verify` damaged by more than "
        f"{document['changes_above_errors']:.0f} times their rounding\nerrors, {missed} passed. "
        f"Of {sound:,} right products, {alarms} failed."
    )


def describe_cost(document: dict[str, Any]) -> str:
    """How many times as long products take with their check, on the GPU and on the CPU."""
    hardware, costs = document["hardware"], document["cost"]
    times = {
        device: [1 + row["share"] for row in costs if bool(row["gpu_rows"]) == on_gpu]
        for device, on_gpu in (("GPU", True), ("CPU", False))
    }
    found = [
        f"{min(shares):.1f} to {max(shares):.1f} times as long on the {device}"
        for device, shares in times.items()
        if shares
    ]
    sizes, joined = sorted({row["size"] for row in costs}), ", and\n".join(found)
    return (
        f"With the check, products of {sizes[0]}³ to {sizes[-1]}³ took {joined} "
        f"({hardware['gpu']}, {hardware['cores']} cores; commit {document['commit']})."
    )
