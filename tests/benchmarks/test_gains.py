"""The README's table of gains: measured quiet and busy, held, and predicted."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from benchmarks.common.results import write_document
from benchmarks.common.tables import RESULTS
from benchmarks.gains import render_gains
from benchmarks.host.baselines.lineup import OURS
from benchmarks.host.busy.rows import ConditionRow

SECONDS = {OURS: 0.00411, "numpy": 0.0922, "cupy": 0.0333, "torch": 0.0044}


def write_results(folder: Path, *conditions: str) -> None:
    """The host's results as they are, and results of 4096³ in some conditions."""
    shutil.copy(RESULTS / "host-h100.json", folder)
    document = json.loads((folder / "host-h100.json").read_text(encoding="utf-8"))
    rows = [
        ConditionRow(
            *(4096, 4096, 4096, "float32", "pageable", condition, name),
            seconds=seconds, runs=[seconds], turns=9, f=0 if name == OURS else None,
        )
        for condition in conditions
        for name, seconds in SECONDS.items()
    ]  # fmt: skip
    head = {name: document[name] for name in ("hardware", "versions")}
    file = folder / "busy-h100.json"
    write_document(file, **head, commit="fed", conditions={}, rows=[asdict(row) for row in rows])


def test_busy_lines_are_beside_quiet_ones_of_the_same_run(tmp_path: Path) -> None:
    write_results(tmp_path, "quiet", "busy", "half")
    text = render_gains(tmp_path)
    lines = [line for line in text.splitlines() if line.startswith("| 4096³ float32 | pageable")]
    figures = "0 | **4.11** |  | 92.2 | 33.3 |  | 4.4 |"
    assert lines == [
        f"| 4096³ float32 | pageable | quiet | {figures}",
        f"| 4096³ float32 | pageable | busy | {figures}",
    ]
    assert "busy cores at fed" in text


def test_each_line_has_one_fastest_and_predictions_say_so() -> None:
    lines = [line for line in render_gains(RESULTS).splitlines() if "float" in line]
    assert all(line.count("**") == 2 for line in lines)
    predicted = [line for line in lines if "*predicted*" in line]
    assert ["T4" in predicted[0], "L4" in predicted[1]] == [True, True]


def test_without_results_the_table_is_empty(tmp_path: Path) -> None:
    assert render_gains(tmp_path) == ""
