"""Results of the host benchmark, from figures that nobody measured."""

import json
from pathlib import Path
from typing import Any

from benchmarks.host_rows import HostResults, HostRow, RegretRow, format_host_document
from benchmarks.host_suite import (
    ALL_SHAPES,
    DTYPES,
    HELD_SMS,
    SQUARES_HELD,
)
from benchmarks.host_summary import ALONE, OURS, PEERS
from wavetrim.scheduler.problem import MEMORIES

ALL_SMS = 132
HEAD: dict[str, Any] = {
    "hardware": {
        "gpu": "NVIDIA Abacus",
        "sm_count": ALL_SMS,
        "driver": "1.2",
        "cpu": "Beads",
        "cores": 16,
    },
    "versions": {"cupy-cuda13x": "3.4", "numpy": "5.6"},
    "commit": "abc",
    "measured_at": "2031-01-02T03:04:05+00:00",
    "link": {"in_gbytes_per_second": 55.04, "out_gbytes_per_second": 51.0},
    "left_out": ["torch: not there"],
}
SECONDS = {OURS: 0.01, "wavetrim-gpu": 0.012, "wavetrim-cpu": 0.03} | dict.fromkeys(PEERS, 0.05)


def invent_host_row(contender: str, **changes: Any) -> HostRow:
    """A row at 4096³: ours is at 0.95 of the limit, and five times as fast as the others."""
    figures: dict[str, Any] = {
        "m": 4096,
        "n": 4096,
        "k": 4096,
        "dtype": "float32",
        "memory": "pinned",
        "sms": ALL_SMS,
        "contender": contender,
        "seconds": SECONDS[contender],
        "limit_seconds": 0.0095,
        "f": 64 if contender == OURS else None,
        "f_actual": 60 if contender == OURS else None,
        "spread": 0.1,
        "turns": 9,
        "commit": HEAD["commit"],
    }
    return HostRow(**(figures | changes))


def invent_sweep(**changes: Any) -> RegretRow:
    """A sweep whose model guessed almost the best F."""
    figures: dict[str, Any] = {
        "m": 4096,
        "n": 4096,
        "k": 4096,
        "dtype": "float32",
        "memory": "pageable",
        "sms": ALL_SMS,
        "f": 64,
        "best_f": 32,
        "regret": 1.01,
        "predicted_seconds": {"gpu": 0.0104, "cpu": 0.0096, "total": 0.0104},
        "measured_seconds": {"gpu": 0.01, "cpu": 0.01, "total": 0.01},
        "kernel": "cublas 128x256x8",
        "gpu_alone_seconds": 0.0125,
        "cpu_alone_seconds": None,
        "moving_seconds": 0.01,
        "turns": 5,
        "curve": [[0, 0.0125, 0.0125], [32, 0.0099, 0.0105], [64, 0.01, 0.0104]],
        "commit": HEAD["commit"],
    }
    return RegretRow(**(figures | changes))


def invent_host_results(pace: float = 1.0) -> HostResults:
    """Rows of all contenders at all products, budgets and sweeps."""
    places = [dict(zip("mnk", shape, strict=True)) for shape in ALL_SHAPES]
    rows = [
        invent_host_row(name, **place, dtype=dtype, memory=memory, seconds=SECONDS[name] / pace)
        for place in places
        for dtype in DTYPES
        for memory in MEMORIES
        for name in (OURS, "wavetrim-gpu", *PEERS)
        if name != "numpy" or memory == "pageable"
    ]
    rows += [
        invent_host_row(
            name, m=size, n=size, k=size, dtype=dtype, memory="pageable", sms=sms,
            seconds={OURS: 0.1}.get(name, 0.16),
        )
        for size, _, _ in SQUARES_HELD
        for dtype in DTYPES
        for sms in HELD_SMS
        for name in (OURS, *ALONE)
    ]  # fmt: skip
    regret = [
        invent_sweep(**place, dtype=dtype, sms=sms, regret=1.01 if pace == 1.0 else 1.2)
        for place in places
        for dtype in DTYPES
        for sms in (ALL_SMS, 32, 8, 4)
    ]
    return HostResults("abacus", HEAD, tuple(rows), tuple(regret))


def write_host_results(results: HostResults, folder: Path) -> Path:
    """Write them as the benchmark does."""
    file = folder / f"host-{results.name}.json"
    text = format_host_document(results.document, results.rows, results.regret)
    file.write_text(text, encoding="utf-8")
    return file


def change_document(file: Path, change: Any) -> None:
    """Damage a results file."""
    document = json.loads(file.read_text(encoding="utf-8"))
    change(document)
    file.write_text(json.dumps(document), encoding="utf-8")
