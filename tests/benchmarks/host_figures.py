"""Results of the host benchmark, from figures that nobody measured."""

from dataclasses import replace
from typing import Any

from benchmarks.host.baselines.lineup import NAMES, OURS, PRESET
from benchmarks.host.results import HostResults, HostRow, SweepRow
from benchmarks.host.suite import draw_products, list_small, list_suite
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
SECONDS = dict.fromkeys(NAMES, 0.05) | {OURS: 0.01, PRESET: 0.011, "wavetrim-gpu": 0.012}
PREDICTED = {"kernel": "cublas 128x256x8", "predicted_seconds": 0.0102}


SWEEP = SweepRow(
    *(4096, 4096, 4096, "float32", "pageable"),
    sms=ALL_SMS,
    f=64,
    best_f=32,
    regret=1.01,
    predicted_seconds={"gpu": 0.0104, "cpu": 0.0096, "total": 0.0104},
    measured_seconds={"gpu": 0.01, "cpu": 0.01, "total": 0.01},
    kernel="cublas 128x256x8",
    gpu_alone_seconds=0.0125,
    cpu_alone_seconds=None,
    turns=5,
    curve=[[0, 0.0125, 0.0125], [32, 0.0099, 0.0105], [64, 0.01, 0.0104]],
)
"""A sweep whose model guessed almost the best F."""


def invent_host_row(baseline: str, **changes: Any) -> HostRow:
    """A row at 4096³: ours is at 0.95 of the limit, and five times as fast as the others."""
    f, f_actual = (64, 60) if baseline == OURS else (None, None)
    row = HostRow(
        *(
            4096,
            4096,
            4096,
            "float32",
            "pinned",
            baseline,
            SECONDS.get(baseline, 0.05),
            0.0095,
            f,
            f_actual,
        ),
        spread=0.1,
        turns=9,
        settings=PREDICTED if baseline in (OURS, PRESET) else None,
    )
    return replace(row, **changes)


def invent_host_results(pace: float = 1.0) -> HostResults:
    """Rows of all baselines at all products, and sweeps with some budgets of multiprocessors."""
    rows = [
        invent_host_row(
            name,
            **dict(zip("mnk", product.shape, strict=True)),
            dtype=product.dtype,
            memory=memory,
            group=product.group,
            limit_seconds=0.0095 if product.group == "suite" else None,
            seconds=SECONDS[name] / pace,
        )
        for product in (*list_suite(), *list_small(), *draw_products("2031-01-02"))
        for memory in MEMORIES
        for name in NAMES
        if (name != "numpy" or memory == "pageable")
        and (name != "cublasxt" or product.group == "suite")
    ]
    regret = [
        replace(
            SWEEP,
            **dict(zip("mnk", product.shape, strict=True)),
            dtype=product.dtype,
            sms=sms,
            f=product.shape[0] // 2,
            regret=1.01 if pace == 1.0 else 1.2,
        )
        for product in list_suite()
        for sms in (ALL_SMS, 32, 8, 4)
    ]
    return HostResults(HEAD, tuple(rows), tuple(regret))
