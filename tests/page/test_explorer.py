"""The wave explorer as a browser shows it, from the service and as one file."""

import json
import shlex
import subprocess
import sys
from io import BytesIO
from urllib.parse import urlencode

import numpy as np
import pytest

from tests.browsers import SHOWN, count, go, read, read_all, read_picture, show, show_anew
from tests.page.explorer import (
    FILE,
    MEASURED,
    SPLIT,
    change,
    find_invalid,
    list_queries,
    move,
    read_shown,
)
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile


def test_the_first_screen_teaches_what_a_wave_is(page, shared_server):
    page.resize(1440, 900)
    show_anew(page, f"{shared_server.url}/")
    (grid,) = (
        part["grid"]
        for part in shared_server.client.get(
            "/v1/plan", params="m=896&n=1536&k=1024&dtype=float64&device=T4&cpu_threads=2&f=0"
        ).json()["devices"]
    )
    slots, last = grid["slots"], grid["tiles"] - (grid["waves"] - 1) * grid["slots"]
    assert (grid["waves"], slots) == (5, 40)
    assert read(page, "#told-waves") == (
        f"{slots} slots compute {slots} tiles at a time: one wave; "
        f"the last wave has {last}, the other {slots - last} wait."
    )
    for seen in ("#told-waves", "#words button", "#map svg", "#curve svg", "#curve .caption"):
        assert page.run(f"document.querySelector('{seen}').getBoundingClientRect().bottom") <= 900
    page.run("document.querySelector('.term').focus(); null")
    assert "one block of threads" in page.run(
        "getComputedStyle(document.querySelector('.term'), '::after').content"
    )
    page.resize(390, 844)
    above = "document.querySelector('.form').getBoundingClientRect().bottom"
    below = "document.getElementById('exercise').parentElement.getBoundingClientRect().top"
    assert page.run(above) <= page.run(below)


def test_a_plan_is_copied_as_calls_that_give_it(page, shared_server):
    show(page, f"{shared_server.url}/{SPLIT}&f=100")
    curl, command, python = read_all(page, ".call")
    names = {}
    exec(python.replace("wavetrim.plan", "plan = wavetrim.plan"), names)
    run = [sys.executable, "-m", *shlex.split(command), "--json"]
    told = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    answer = shared_server.client.get(shlex.split(curl)[1]).json()
    for f, waves in ((told["f"], told["waves"]), (names["plan"].f, names["plan"].waves)):
        assert (f, waves) == (answer["f"], answer["waves"]) == (100, read_shown(page)["waves"])
    go(page, change("device", "typed"))
    assert count(page, ".call") == 1  # curl


def test_threads_and_rates_are_the_devices_own_again_when_it_changes(page, shared_server):
    fields = "['threads', 'rate', 'linkrate'].map((id) => document.getElementById(id).value)"
    own = f"{shared_server.url}/{SPLIT}".replace("T4&threads=2", "L4")
    show(page, own)
    untouched, expected = page.run(fields), read_shown(page)
    go(page, change("device", "T4"))
    for field, value in (("threads", "5"), ("rate", "900"), ("linkrate", "7")):
        go(page, change(field, value))
    assert page.run(fields) == ["5", "900", "7"]
    assert read_shown(page) != expected
    go(page, change("device", "L4"))
    assert (page.run(fields), read_shown(page)) == (untouched, expected)


def test_a_product_beyond_memory_is_refused_with_both_sizes(page, shared_server):
    product = "m=9000000&n=9000000&k=9000000&dtype=float64&device=T4&threads=2"
    show(page, f"{shared_server.url}/#{product}")
    told = read(page, ".problem")
    assert "take 1,810,491.1 GiB, and a process can address 131,072.0 GiB" in told
    assert page.run("document.querySelector('.results').hidden")


DESCRIBED = {
    "smcount": ("sm_count", 60),
    "clock": ("clock_mhz", 1500),
    "memclock": ("memory_clock_mhz", 9000),
    "capability": ("compute_capability", "8.9"),
    "memgib": ("memory_gib", 12),
    "link": ("link_standard_gbytes_per_second", 31.5),
    "gpus": ("gpus", 2),
}


def test_a_gpu_that_is_typed_in_has_the_plan_of_the_service(page, shared_server):
    product = {"m": 9000, "n": 9000, "k": 2000, "dtype": "float32", "memory": "pinned"}
    show(page, f"{shared_server.url}/#{urlencode(product)}&device=T4&threads=4")
    go(page, change("device", "typed"))
    for field, (_, value) in DESCRIBED.items():
        go(page, change(field, value))
    described = dict(DESCRIBED.values())
    plan = shared_server.client.get("/v1/plan", params={**product, "cpu_threads": 4, **described})
    expected = plan.raise_for_status().json()
    seconds = expected["predicted"]["total_seconds"]
    assert tuple(read_shown(page).values()) == (expected["f"], expected["waves"], seconds)
    assert f"{len(expected['profile']['gpus'])} × " in read(page, ".sources")
    assert "60 multiprocessors" in read(page, ".sources")


def test_moving_f_asks_the_service_for_the_newest_and_draws_its_plan(page, shared_server):
    query = {"m": 4096, "n": 4096, "k": 4096, "dtype": "float64", "memory": "pinned",
             "device": "T4", "cpu_threads": 2}  # fmt: skip
    show_anew(page, f"{shared_server.url}/{SPLIT}")
    drawn = "document.querySelector('#map svg').getAttribute('aria-label')"
    for f in (640, 1000, 640):
        plan = shared_server.client.get("/v1/plan", params={**query, "f": f}).json()
        page.run(f"{move(f)}; null")
        page.wait(f"document.documentElement.dataset.f === '{f}'")
        assert read_shown(page)["seconds"] == plan["predicted"]["total_seconds"]
        assert f"and {f:,} rows of the CPU" in page.run(drawn)
    asked = [values["f"][0] for values in list_queries(page, "/v1/plan") if "f" in values]
    assert asked == ["640", "1000"]  # an answer is kept
    page.requests.clear()
    page.run(f"for (const f of [100, 200, 300, 400, 500]) {move('f')}; null")
    page.wait("document.documentElement.dataset.f === '500'")
    asked = [values["f"][0] for values in list_queries(page, "/v1/plan") if "f" in values]
    assert asked == ["100", "500"]


def test_the_single_file_has_the_exercises_and_says_what_it_lacks(page):
    show_anew(page, f"{FILE}{SPLIT}")
    preset = next(one for one in PRESETS if one.name == "T4")
    plan = choose_plan(
        GemmProblem(4096, 4096, 4096, "float64", "pinned"),
        build_preset_profile(preset, "", cpu_threads=2),
    )
    expected = plan.f, plan.waves, pytest.approx(plan.predicted.total_seconds, rel=1e-4)
    assert tuple(read_shown(page).values()) == expected
    assert read(page, "#headline").startswith(
        f"{plan.waves_gpu_only} → {plan.waves} waves, the last"
    )
    assert count(page, ".exercises button") == 8
    assert "Other products need a service: make serve." in read(page, "#foot")
    go(page, change("m", 4097))
    assert "start a service (make serve)" in read(page, "#notice")
    assert page.run("document.querySelector('.results').hidden")
    go(page, "history.back()")
    assert tuple(read_shown(page).values()) == expected
    assert read(page, "#notice") == ""
    assert page.problems == []
    assert page.requests == [FILE]


def test_f_is_moved_by_the_keyboard(page, shared_server):
    show(page, f"{shared_server.url}/{SPLIT}")
    page.run("document.getElementById('f').focus(); null")
    for code, key, f in ((39, "ArrowRight", 449), (36, "Home", 0), (35, "End", 4096)):
        page.press(key, code=code)
        page.wait(f"{SHOWN} && document.documentElement.dataset.f === '{f}'")
        assert f"f={f}" in page.run("location.hash")


def test_a_size_that_is_no_number_is_refused(page):
    show(page, f"{FILE}#device=T4&threads=2")
    page.run("document.getElementById('n').focus(); document.getElementById('n').select()")
    for key in "-e":
        page.press(key, text=key)
    page.press("Tab", code=9)
    assert read(page, ".problem").startswith("n is not a number;")
    assert find_invalid(page) == ["n"]


def test_a_refused_split_is_told_and_drawn(page, shared_server):
    query = {"m": 4096, "n": 4096, "k": 4096, "dtype": "float32", "memory": "pinned",
             "device": "A100 SXM 80", "cpu_threads": 16}  # fmt: skip
    plan = shared_server.client.get("/v1/plan", params=query).json()
    refused, least = plan["refused_split"], 1 / (1 - plan["least_gain"])
    speed = plan["predicted"]["total_seconds"] / refused["seconds"]
    show(page, f"{shared_server.url}/#{urlencode(query).replace('cpu_', '')}")
    told = (
        f"F = {refused['f']} would be {speed:.2f} times as fast; below {least:.2f} no split is made"
    )
    assert told in read(page, "#f-choice")
    assert told in read(page, "#refused")
    go(page, change("f-number", refused["f"]))
    assert "less time" in read(page, "#f-choice")
    show(page, f"{shared_server.url}/{SPLIT}")  # which is made
    assert not page.run("Boolean(document.getElementById('refused'))")


def test_a_refusal_marks_its_field(page, shared_server):
    show(page, f"{shared_server.url}/#device=T4&threads=2&kernel=bulk&dtype=float32")
    assert read(page, ".problem").startswith("kernel is")
    assert find_invalid(page) == ["kernel"]
    go(page, change("kernel", "auto"))
    assert page.run("document.querySelector('.problem').hidden")
    assert read(page, "#headline")


def test_a_malformed_address_shows_the_default_product(page):
    show(page, f"{FILE}#m=-3&n=x&k=1e99&dtype=%3Cb%3E&kernel=auto&device=T4&threads=0&f=1.5")
    assert read(page, "#headline")
    assert page.run("document.getElementById('m').value") == "4096"
    assert page.problems == []


def test_a_picture_is_saved(page, saved):
    show(page, f"{FILE}{SPLIT}")
    picture = read_picture(BytesIO(saved("Save a picture")))
    assert picture.shape[0] > 1000
    assert picture.shape[1] > 800
    assert len(np.unique(picture[::7, ::7].reshape(-1, picture.shape[2]), axis=0)) > 40
    assert page.problems == []


def test_the_schedule_is_saved_for_perfetto(page, saved):
    show(page, f"{FILE}{MEASURED}")
    document = json.loads(saved("Save for Perfetto"))
    events = document["traceEvents"]
    names = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert names[0].startswith("predicted, F = ")
    assert names[1].startswith("measured on NVIDIA H100 80GB HBM3, F = ")
    lanes = {
        one["args"]["name"] for one in events if one["name"] == "thread_name" and one["pid"] == 1
    }
    assert lanes == {"copy in", "kernel", "copy out", "CPU"}
    spans = [one for one in events if one["ph"] == "X"]
    ends = {
        process: max(one["ts"] + one["dur"] for one in spans if one["pid"] == process)
        for process in (1, 2)
    }
    kernels = [one["name"] for one in spans if one["cat"] == "kernel"]
    assert kernels[0].startswith("kernel, rows 0 to ")
    rows = 4096 - int(read_shown(page)["f"])
    assert f"to {rows - 1:,}, " in kernels[-1]
    assert ends[1] == pytest.approx(1e6 * read_shown(page)["seconds"], rel=1e-3)
    assert ends[2] == pytest.approx(ends[1], rel=0.5)


def test_the_key_is_asked_for_once_and_kept_in_the_tab(browser, page, start_server):
    server = start_server(api_key="correct-horse-battery-staple-0123456789")
    show(page, f"{server.url}/#device=here")
    refused = ("wrong", "ключ", "\u200bcorrect-horse-battery-staple-0123456789", "x" * 70_000)
    forms = {
        **dict.fromkeys(refused, "#key"),
        " correct-horse-battery-staple-0123456789 ": "#headline",
    }
    for key, form in forms.items():
        page.wait("document.getElementById('key')")
        page.run(f"document.getElementById('key').value = {json.dumps(key)}; "
                 "document.querySelector('#notice form').requestSubmit(); null")  # fmt: skip
        page.wait(f"document.querySelector('#notice').textContent.includes('refused') "
                  f"|| document.querySelector('{form}')")  # fmt: skip
        if key in refused:
            page.wait("document.querySelector('#notice').textContent.includes('refused')")
    page.wait("document.getElementById('headline')")
    assert page.run("localStorage.length") == 0
    assert page.run("document.cookie") == ""
    assert page.run("sessionStorage.length") == 1
    other = browser.open_page()
    show(other, f"{server.url}/#device=here")
    assert other.run("sessionStorage.length") == 0
    show(other, f"{server.url}/{SPLIT}&exercise=4")  # exercises are recorded
    assert read(other, "#headline")
