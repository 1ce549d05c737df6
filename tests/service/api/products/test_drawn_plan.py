"""What a plan's answer has for drawings, and GPUs that a query describes."""

from itertools import pairwise

import numpy as np
import pytest

SPLIT = {"m": 4096, "n": 4096, "k": 4096, "dtype": "float64", "device": "T4", "cpu_threads": 8}
CASES = [
    SPLIT,
    {"m": 4096, "n": 5121, "k": 700, "device": "T4", "kernel": "register"},
    {"m": 5003, "n": 16384, "k": 256, "device": "H200", "memory": "pinned", "f": 701},
    {"m": 64, "n": 8192, "k": 8192, "device": "H200", "memory": "pinned", "resident": True},
    {"m": 8192, "n": 8192, "k": 8192, "device": "H200", "sms": 8, "accuracy": "strict"},
    {"m": 16384, "n": 16384, "k": 16384, "device": "H200 x3", "memory": "pinned"},
    {"m": 2048, "n": 16384, "k": 16384, "device": "H200 x4", "memory": "pinned", "f": 0},
    {"m": 9000, "n": 900, "k": 90, "device": "H200", "f": 9000},
    {"m": 300, "n": 200, "k": 100, "device": "cpu"},
]
in_every_case = pytest.mark.parametrize("asked", CASES, ids=str)
A100 = {"sm_count": 108, "clock_mhz": 1410, "compute_capability": "8.0", "memory_gib": 40}


def ask(server, **query):
    response = server.client.get("/v1/plan", params={"drawing": True, **query})
    assert response.status_code == 200, response.text
    assert len(response.content) < 100_000
    return response.json()


def list_ends(spans, first, count):
    return sorted({end for one in spans for end in (one[first], one[first] + one[count])})


def count_uses(spans, m, n):
    """How often the spans cover elements of C, on the grid of all their edges."""
    rows = sorted({0, m, *list_ends(spans, "first_row", "rows")})
    columns = sorted({0, n, *list_ends(spans, "first_column", "columns")})
    uses = np.zeros((len(rows) - 1, len(columns) - 1), int)
    for one in spans:
        top, bottom = (rows.index(one["first_row"] + at) for at in (0, one["rows"]))
        left, right = (columns.index(one["first_column"] + at) for at in (0, one["columns"]))
        uses[top:bottom, left:right] += 1
    return set(uses.flat)


@in_every_case
def test_each_element_is_written_once_by_queues_in_order(shared_server, asked):
    plan = ask(shared_server, **asked)
    total_seconds, writing, terms = plan["predicted"]["total_seconds"], [], 0
    for queue in plan["schedule"]:
        assert all(one["begin_seconds"] <= one["end_seconds"] for one in queue["spans"])
        for one, other in pairwise(queue["spans"]):
            assert one["end_seconds"] <= other["begin_seconds"] * (1 + 1e-9)
        if queue["queue"] in ("copy out", "cpu"):
            writing += queue["spans"]
        if queue["queue"] in ("kernel", "cpu"):
            terms += sum(one["rows"] * one["columns"] * one["depth"] for one in queue["spans"])
    assert count_uses(writing, asked["m"], asked["n"]) == {1}
    assert terms == asked["m"] * asked["n"] * asked["k"]
    assert max(one["end_seconds"] for one in writing) == pytest.approx(total_seconds)
    devices = {one["device"]: one for one in plan["devices"]}
    for queue in plan["schedule"]:
        assert queue["spans"][-1]["end_seconds"] <= devices[queue["device"]]["seconds"] * 1.000001


@in_every_case
def test_only_drawings_have_a_schedule(shared_server, asked):
    drawn, plain = (ask(shared_server, **asked, drawing=one) for one in (True, False))
    assert drawn.pop("schedule")
    assert plain.pop("schedule") is None
    assert drawn == plain


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("preset", "described"),
    [
        ("A100 SXM 40", {**A100, "memory_clock_mhz": 24_300}),
        ("L4", {"sm_count": 58, "clock_mhz": 2040, "compute_capability": "8.9", "memory_gib": 24,
                "memory_clock_mhz": 4690}),
    ],
)  # fmt: skip
def test_a_gpu_that_is_described_by_its_data_sheet_has_the_plan_of_its_preset(
    shared_server, preset, described, count
):
    for sizes in ({"m": 4096, "n": 4096, "k": 4096}, {"m": 16384, "n": 8192, "k": 256}):
        for memory in ("pageable", "pinned"):
            wanted = {**sizes, "memory": memory, "cpu_threads": 16}
            known = ask(shared_server, **wanted, device=f"{preset} x{count}")
            plan = ask(
                shared_server, **wanted, **described, link_standard_gbytes_per_second=31.5,
                gpus=count,
            )  # fmt: skip
            for name in ("f", "kernel", "tile", "waves", "waves_gpu_only", "slots"):
                assert plan[name] == known[name], name
            known_seconds, seconds = (one["predicted"]["total_seconds"] for one in (known, plan))
            assert seconds == pytest.approx(known_seconds, rel=1e-2)
            assert len(plan["profile"]["gpus"]) == count
            assert "asked for" in plan["profile"]["source"]
