"""Results of the benchmark over HTTP, from figures that nobody measured."""

from typing import Any

from benchmarks.http.baselines.baseline import Name
from benchmarks.http.jobs import WITHOUT_SPLIT
from benchmarks.http.rows import Case, HttpResults, Row
from benchmarks.http.transfers import SINK

MS = 1e-3
ABSENT = ("pytriton at product 8192² float32, 1 client: it has no room",)


def make_row(case: Case, baseline: str, milliseconds: float, **figures: Any) -> Row:
    """A row whose percentiles are a tenth and a half above its median."""
    seconds = milliseconds * MS
    given = {
        "p50_seconds": seconds,
        "p95_seconds": 1.1 * seconds,
        "p99_seconds": 1.5 * seconds,
        "rate": case.clients / seconds,
        "floor_seconds": None,
        "spread": 0.1,
        "rounds": 5,
        "requests": 100,
        "client_share": 0.2,
    } | figures
    about = {"what": case.what, "size": case.size, "dtype": case.dtype, "clients": case.clients}
    return Row(**about, baseline=baseline, **given)


def invent_products(size: int, clients: int, dtype: str = "float32") -> list[Row]:
    """One case: the floor takes as many milliseconds as 64 goes into the size, ours 1.2 times."""
    case = Case("product", size, dtype, clients)
    floor = size / 64
    times = {
        Name.OURS: 1.2,
        Name.OURS_LEASE: 0.8,
        Name.NUMPY: 2.0,
        Name.CUPY: 5.0,
        Name.PYTRITON: 6.0,
        Name.EXECUTOR: 0.7,
    }
    rows = [make_row(case, name, times[name] * floor, floor_seconds=floor * MS) for name in times]
    return [make_row(case, Name.FLOOR, 0.3 * floor, floor_seconds=floor * MS), *rows]


def invent_results(*, gpu: bool = True) -> HttpResults:
    """A results file that has something of everything."""
    hardware = {
        "gpu": "NVIDIA Abacus" if gpu else None,
        "driver": "1.2" if gpu else None,
        "cpu": "Beads",
        "cores": 16 if gpu else 2,
    }
    document = {
        "hardware": hardware,
        "versions": {"numpy": "5.6", "fastapi": "7", "uvicorn": "8"},
        "commit": "abc",
        "measured_at": "2026-01-01T00:00:00+00:00",
    }
    rows = [row for size in (64, 4096) for row in invent_products(size, 1)]
    rows += [row for clients in (16, 512) for row in invent_products(64, clients)]
    for what, ours, sink in (("upload", 400.0, 300.0), ("download", 200.0, 190.0)):
        case = Case(what, 16384, "float32", 1)
        rows += [make_row(case, Name.OURS, ours, own_bytes=2**24), make_row(case, SINK, sink)]
    job = Case("job", 4096, "float32", 1)
    rows.append(
        make_row(job, Name.OURS, 40.0, floor_seconds=25 * MS, executor_seconds=5 * MS, f=0,
                 f_actual=0, disk_seconds=25 * MS, server_seconds=39 * MS, note="GET with wait=30")
    )  # fmt: skip
    split = Case("split", "16384x16384x256", "float32", 1)
    rows += [
        make_row(split, Name.OURS, 20.0, server_seconds=19 * MS, f=2150, f_actual=2100),
        make_row(split, WITHOUT_SPLIT, 22.0, server_seconds=21 * MS, f=0, f_actual=0),
    ]
    return HttpResults("abacus" if gpu else "cpu", document, tuple(rows), ABSENT)
