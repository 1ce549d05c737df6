"""Plans over HTTP, what their answers have for drawings, and GPUs that a query describes."""

import json
from itertools import pairwise

import numpy as np
import pytest

from tests.refusals import expect_refusal
from wavetrim.service.api.products.plan import MAX_SIZE


def ask(server, **query):
    response = server.client.get("/v1/plan", params=query)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_plan_for_a_preset_splits_every_row(shared_server, dtype):
    plan = ask(shared_server, m=16384, n=16384, k=256, dtype=dtype, device="H200")
    assert plan["f"] + plan["gpu_rows"] == 16384
    assert 0 < plan["waves"] <= plan["waves_gpu_only"]
    assert 0 < plan["tail_utilization"] <= 1
    predicted = plan["predicted"]
    assert predicted["total_seconds"] == max(predicted["gpu_seconds"], predicted["cpu_seconds"])
    assert plan["speedup_over_gpu"] >= 1
    assert plan["speedup_over_cpu"] >= 1
    assert plan["profile"]["device"] == "H200"
    assert "preset" in plan["profile"]["source"]


def test_without_a_gpu_the_cpu_has_every_row(shared_server):
    plan = ask(shared_server, m=100, n=50, k=20)
    assert (plan["f"], plan["gpu_rows"], plan["kernel"], plan["tile"]) == (100, 0, None, None)
    assert plan["speedup_over_gpu"] is None
    assert plan["profile"]["device"] == "cpu"
    assert plan["profile"]["source"]


def test_kernel_tile_and_f_can_be_given(shared_server):
    plan = ask(
        shared_server, m=2048, n=2048, k=2048, device="T4", kernel="shared", tile="32", f=512
    )
    assert (plan["f"], plan["kernel"], plan["tile"]) == (512, "shared", "32x32x32")


def test_accuracy_and_multiprocessors_can_be_given(shared_server):
    sizes = {"m": 4096, "n": 4096, "k": 4096, "device": "H200", "f": 0}
    plans = {
        accuracy: ask(shared_server, **sizes, accuracy=accuracy, sms=66)
        for accuracy in ("strict", "library", "float32")
    }
    assert {plan["sms"] for plan in plans.values()} == {66}
    assert (plans["strict"]["kernel"], plans["strict"]["accuracy"]) == ("bulk", "strict")
    assert (plans["float32"]["kernel"], plans["float32"]["accuracy"]) == ("tensor", "float32")
    whole = ask(shared_server, **sizes, accuracy="strict")
    assert whole["sms"] is None
    assert whole["waves"] < plans["strict"]["waves"]


def test_what_if_numbers_move_f_and_say_so_in_the_sources(shared_server):
    sizes = {"m": 4096, "n": 4096, "k": 4096, "dtype": "float64", "device": "T4"}
    asked = {"cpu_threads": 32, "cpu_gflops": 120, "link_gbytes_per_second": 30}
    plan, as_it_is = ask(shared_server, **sizes, **asked), ask(shared_server, **sizes)
    assert plan["f"] > as_it_is["f"]
    figures = plan["profile"]
    assert (figures["cpu"]["threads"], figures["cpu"]["gflops"]) == (32, 120)
    assert figures["link"]["in_gbytes_per_second"] == 30
    assert "as asked" in figures["cpu"]["source"]
    assert "as asked" in figures["link"]["source"]
    assert all(figures[name]["source"] for name in ("kernel", "link", "cpu"))


def test_what_no_memory_can_hold_is_refused_with_both_figures(shared_server):
    refused = shared_server.client.get(f"/v1/plan?m={MAX_SIZE}&n={MAX_SIZE}&k=1&device=H200")
    limit = expect_refusal(refused, 422)["limit"]
    assert "372,529.1 GiB" in limit
    assert "131,072.0 GiB" in limit


H200 = {"device": "H200"}
A100 = {"sm_count": 108, "clock_mhz": 1410, "compute_capability": "8.0", "memory_gib": 40}
NAMED = [
    {"m": 0}, {"n": MAX_SIZE + 1}, {"k": "many"}, {"dtype": "float31"}, {"dtype": "complex256"},
    {"memory": "mapped"}, {"device": "Abacus"}, {"device": "A10 SXM"}, {"kernel": "magic"},
    {"kernel": "tensor", "device": "T4"}, {"kernel": "register", "dtype": "float16"},
    {"kernel": "tensor", "accuracy": "strict"}, {"tile": "33", "kernel": "shared"},
    {"tile": "16x8", "kernel": "shared"}, {"f": 101}, {"f": -1}, {"accuracy": "good"},
    {"accuracy": "float64"}, {"sms": 0}, {"sms": 133}, {"sms": "half"},
    {"sms": 9, "kernel": "shared"}, {"devices": "1"}, {"devices": "all"}, {"devices": "0+"},
    {"devices": "0+7"}, {"colour": "red"}, {"cpu_threads": 0}, {"cpu_gflops": "inf"},
    {"cpu_gflops": "5e-324"}, {"link_gbytes_per_second": -1},
]  # fmt: skip
DESCRIBED = [
    {"sm_count": 0}, {"sm_count": 10_001}, {"sm_count": None, "gpus": 2}, {"clock_mhz": 0},
    {"clock_mhz": "fast"}, {"clock_mhz": None}, {"compute_capability": "8"},
    {"compute_capability": None}, {"memory_gib": 100_001}, {"memory_gib": None},
    {"memory_clock_mhz": 0}, {"link_standard_gbytes_per_second": "inf"}, {"gpus": 9}, {"gpus": 0},
    {"device": "T4"}, {"sms": 109}, {"drawing": "often"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "query"),
    [*((H200, one) for one in NAMED), *((A100, one) for one in DESCRIBED)],
)
def test_a_query_that_cannot_be_met_names_the_field(shared_server, machine, query):
    """It is the first of the query."""
    field = next(iter(query))
    wanted = {"m": 100, "n": 100, "k": 100, **machine, **query}
    given = {name: value for name, value in wanted.items() if value is not None}
    problem = expect_refusal(shared_server.client.get("/v1/plan", params=given), 422)
    assert problem["field"].startswith(field)
    assert str(problem["value"]) == str(wanted[field])
    assert problem["limit"]


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


def draw(server, **query):
    plan = ask(server, **{"drawing": True, **query})
    assert len(json.dumps(plan)) < 100_000
    return plan


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
    plan = draw(shared_server, **asked)
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
    drawn, plain = (draw(shared_server, **asked, drawing=one) for one in (True, False))
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
            known = draw(shared_server, **wanted, device=f"{preset} x{count}")
            plan = draw(
                shared_server, **wanted, **described, link_standard_gbytes_per_second=31.5,
                gpus=count,
            )  # fmt: skip
            for name in ("f", "kernel", "tile", "waves", "waves_gpu_only", "slots"):
                assert plan[name] == known[name], name
            known_seconds, seconds = (one["predicted"]["total_seconds"] for one in (known, plan))
            assert seconds == pytest.approx(known_seconds, rel=1e-2)
            assert len(plan["profile"]["gpus"]) == count
            assert "asked for" in plan["profile"]["source"]
