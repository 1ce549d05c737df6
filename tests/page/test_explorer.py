"""The wave explorer as a browser shows it, from the service and as one file."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

import matplotlib.image
import numpy as np
import pytest

from docs.browser import Browser, Page
from docs.explorer_pictures import PICTURES
from tests.browsers import SHOWN, expect_picture, find_barriers, go, show, show_anew
from tests.page.explorer import (
    AREAS,
    FILE,
    change,
    find_invalid,
    list_queries,
    move,
    read_headline,
    read_notice,
    read_problem,
    read_shown,
    read_sources,
    store_cpu,
)
from tests.processes import wait_until
from tests.server import NPY, RunningServer, Start, encode_npy
from wavetrim.scheduler.execution.run_notes import BRIEF_RUNS_NOTED
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile

SPLIT = "#m=4096&n=4096&k=4096&dtype=float64&device=T4&threads=2"
MEASURED = "#m=4096&n=4096&k=4096&dtype=float32&memory=pageable&device=host-h200&sms=8"
SHAPES = [(4096, 4096, 4096), (16384, 16384, 256), (1000, 70, 333), (2560, 16385, 4096), (1, 9, 9)]


def test_the_page_requests_nothing_outside_its_service(
    page: Page, shared_server: RunningServer
) -> None:
    show(page, f"{shared_server.url}/#device=here")
    assert page.run("document.title") == "Wave explorer · wavetrim"
    assert read_headline(page)
    assert page.problems == []
    assert all(url.startswith(f"{shared_server.url}/") for url in page.requests)
    assert len(page.requests) > 20  # requests are seen


def test_the_page_shows_the_plan_that_the_service_makes(
    page: Page, shared_server: RunningServer
) -> None:
    one = encode_npy(np.ones((9, 9)))
    for _ in range(3 * BRIEF_RUNS_NOTED):  # runs correct the predictions of both
        assert shared_server.client.post("/v1/matmul", content=one + one, headers=NPY).is_success
    # An open page does not know of runs since it was loaded.
    show_anew(page, f"{shared_server.url}/#device=here")
    for device in ("here", "H200", "T4", "RTX 4090"):
        for m, n, k in SHAPES:
            for memory in ("pageable", "pinned"):
                query = {"m": m, "n": n, "k": k, "dtype": "float64", "memory": memory}
                named = query if device == "here" else {**query, "device": device}
                plan = shared_server.client.get("/v1/plan", params=named).json()
                threads = plan["profile"]["cpu"]["threads"]
                address = urlencode({**query, "device": device, "threads": threads})
                show(page, f"{shared_server.url}/#{address}")
                expected = plan["f"], plan["waves"], plan["predicted"]["total_seconds"]
                assert tuple(read_shown(page).values()) == expected, address


WHAT_IF = {"threads": "cpu_threads", "rate": "cpu_gflops", "linkrate": "link_gbytes_per_second"}


@pytest.mark.parametrize("device", ["here", "T4"])
def test_supposed_numbers_give_the_plan_of_the_service(
    page: Page, start_server: Start, tmp_path: Path, device: str
) -> None:
    store_cpu(tmp_path, gflops=150)
    with start_server(profile_dir=tmp_path, cpu_threads=2) as server:
        asked = {"m": 4096, "n": 4096, "k": 4096, "dtype": "float64"}
        named = asked if device == "here" else {**asked, "device": device}
        show(page, f"{server.url}/#{urlencode({**asked, 'device': device, 'threads': 2})}")
        for field, value in {"": 0, "threads": 6, "rate": 400, "linkrate": 25}.items():
            if field == "linkrate" and device == "here":
                assert page.run("document.getElementById('linkrate').disabled")
                continue
            if field:
                named = {**named, WHAT_IF[field]: value}
                go(page, change(field, value))
            plan = server.client.get("/v1/plan", params=named).json()
            expected = plan["f"], plan["waves"], plan["predicted"]["total_seconds"]
            assert tuple(read_shown(page).values()) == expected, field
            assert plan["profile"]["cpu"]["source"] in read_sources(page)
            assert "measured here" in read_sources(page)


def test_a_product_beyond_memory_is_refused_with_both_sizes(
    page: Page, shared_server: RunningServer
) -> None:
    product = "m=9000000&n=9000000&k=9000000&dtype=float64&device=T4&threads=2"
    show(page, f"{shared_server.url}/#{product}")
    told = read_problem(page)
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


def test_a_gpu_that_is_typed_in_has_the_plan_of_the_service(
    page: Page, shared_server: RunningServer
) -> None:
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
    assert f"{len(expected['profile']['gpus'])} × " in read_sources(page)
    assert "60 multiprocessors" in read_sources(page)


def test_what_is_refused_of_a_typed_gpu_is_marked(page: Page, shared_server: RunningServer) -> None:
    typed = "#device=typed&threads=2"
    show(page, f"{shared_server.url}/{typed}&capability=x")
    assert find_invalid(page) == ["capability"]
    go(page, f"location.hash = '{typed}&smcount=108&capability=8.0'")
    assert find_invalid(page) == []
    assert read_headline(page)


def test_moving_f_asks_the_service_and_draws_its_plan(
    page: Page, shared_server: RunningServer
) -> None:
    query = {"m": 4096, "n": 4096, "k": 4096, "dtype": "float64", "device": "T4", "cpu_threads": 2}
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


def test_while_the_slider_moves_the_newest_f_is_asked_for(
    page: Page, shared_server: RunningServer
) -> None:
    show_anew(page, f"{shared_server.url}/{SPLIT}")
    page.run(f"for (const f of [100, 200, 300, 400, 500]) {move('f')}; null")
    page.wait("document.documentElement.dataset.f === '500'")
    asked = [values["f"][0] for values in list_queries(page, "/v1/plan") if "f" in values]
    assert asked == ["100", "500"]


def test_a_service_that_has_gone_is_told(page: Page, start_server: Start) -> None:
    server = start_server()
    server.wait_ready()
    show_anew(page, f"{server.url}/{SPLIT}")
    server.stop()
    page.run(f"{move(100)}; null")
    page.wait("document.querySelector('#notice .problem')")
    assert read_notice(page).startswith("Failed to fetch")
    server.restart()
    server.wait_ready()
    go(page, "location.hash += '&f=100'")
    assert read_shown(page)["f"] == 100
    assert read_notice(page) == ""


def test_a_given_f_has_the_plan_of_the_service(page: Page, shared_server: RunningServer) -> None:
    query = {"m": 4096, "n": 4096, "k": 4096, "dtype": "float64", "device": "T4"}
    for f in (0, 1, 63, 64, 1000, 4095, 4096):
        plan = shared_server.client.get("/v1/plan", params={**query, "f": f}).json()
        threads = plan["profile"]["cpu"]["threads"]
        show(page, f"{shared_server.url}/#{urlencode({**query, 'threads': threads, 'f': f})}")
        expected = f, plan["waves"], plan["predicted"]["total_seconds"]
        assert tuple(read_shown(page).values()) == expected


def test_runs_of_the_service_correct_the_page(page: Page, server: RunningServer) -> None:
    content = encode_npy(np.ones((700, 600))) + encode_npy(np.ones((600, 500)))
    query = {"m": 700, "n": 500, "k": 600, "dtype": "float64"}
    before = server.client.get("/v1/plan", params=query).json()["predicted"]["total_seconds"]
    show(page, f"{server.url}/#{urlencode({**query, 'device': 'here'})}")
    assert read_shown(page)["seconds"] == before

    def has_run() -> bool:
        server.client.post("/v1/matmul", content=content, headers=NPY).raise_for_status()
        plan = server.client.get("/v1/plan", params=query).json()
        return bool(plan["profile"]["corrections"])

    wait_until(has_run)
    after = server.client.get("/v1/plan", params=query).json()["predicted"]["total_seconds"]
    go(page, "location.hash += '&f=700'")
    assert read_shown(page)["seconds"] == after != before


def test_the_single_file_has_the_exercises_and_says_what_it_lacks(page: Page) -> None:
    show_anew(page, f"{FILE}{SPLIT}")
    preset = next(one for one in PRESETS if one.name == "T4")
    plan = choose_plan(
        GemmProblem(4096, 4096, 4096, "float64"), build_preset_profile(preset, "", cpu_threads=2)
    )
    expected = plan.f, plan.waves, pytest.approx(plan.predicted.total_seconds, rel=1e-4)
    assert tuple(read_shown(page).values()) == expected
    assert read_headline(page).startswith(f"{plan.waves_gpu_only} → {plan.waves} waves, the last")
    assert page.run("document.querySelectorAll('.exercises button').length") == 8
    assert "any other product needs a service (make serve)" in page.run(
        "document.getElementById('foot').textContent"
    )
    go(page, change("m", 4097))
    assert "start a service (make serve)" in read_notice(page)
    assert page.run("document.querySelector('.results').hidden")
    go(page, "history.back()")
    assert tuple(read_shown(page).values()) == expected
    assert read_notice(page) == ""
    assert page.problems == []
    assert page.requests == [FILE]


def test_back_undoes_what_was_changed(page: Page, shared_server: RunningServer) -> None:
    show(page, f"{shared_server.url}/{SPLIT}")
    before = read_shown(page)
    go(page, change("n", 5000))
    assert read_shown(page) != before
    assert "n=5000" in page.run("location.hash")
    go(page, "history.back()")
    assert read_shown(page) == before
    assert page.run("document.getElementById('n').value") == "4096"


def test_f_is_moved_by_the_keyboard(page: Page, shared_server: RunningServer) -> None:
    show(page, f"{shared_server.url}/{SPLIT}")
    for _ in range(60):
        page.press("Tab", code=9)
        if page.run("document.activeElement.id") == "f":
            break
    assert page.run("document.activeElement.id") == "f"
    for code, key, f in ((39, "ArrowRight", 449), (36, "Home", 0), (35, "End", 4096)):
        page.press(key, code=code)
        page.wait(f"{SHOWN} && document.documentElement.dataset.f === '{f}'")
        assert f"f={f}" in page.run("location.hash")


def test_an_f_beyond_the_rows_is_replaced_by_the_nearest(page: Page) -> None:
    show(page, f"{FILE}{SPLIT}")
    for typed, f in (("-5", 0), ("-6", 0), ("99999", 4096), ("99998", 4096), ("", 4096)):
        page.run(f"{change('f-number', typed)}; null")
        page.wait(f"{SHOWN} && document.getElementById('f-number').value === '{f}'")
        assert read_shown(page)["f"] == f


def test_a_refused_size_is_forgotten_once_it_is_corrected(page: Page) -> None:
    show(page, f"{FILE}#device=T4&threads=2")
    page.run(f"{change('m', 0)}; null")
    assert read_problem(page).startswith("m is 0;")
    page.run(f"{change('m', 4096)}; null")
    page.wait("document.querySelector('.problem').hidden")
    assert find_invalid(page) == []


def test_a_size_that_is_no_number_is_refused(page: Page) -> None:
    show(page, f"{FILE}#device=T4&threads=2")
    page.run("document.getElementById('n').focus(); document.getElementById('n').select()")
    for key in "-e":
        page.press(key, text=key)
    page.press("Tab", code=9)
    assert read_problem(page).startswith("n is not a number;")
    assert find_invalid(page) == ["n"]


def test_a_cpu_alone_is_called_the_fastest_only_if_it_is(
    page: Page, shared_server: RunningServer
) -> None:
    url = f"{shared_server.url}/"
    told = "document.querySelector('#words p:last-child').textContent"
    show(page, f"{url}{SPLIT}&f=4096")
    assert page.run(told) == "The CPU alone is slower than the GPU alone."
    show(page, f"{url}{SPLIT}&gpus=2&f=4096")
    assert page.run(told) == "The CPU alone is slower than one GPU alone."
    show(page, f"{url}#m=9&n=9&k=9&device=T4&threads=2")
    assert page.run(told) == "The CPU alone is the fastest."


@pytest.mark.parametrize(
    "product", ["#m=9&n=9&k=9&device=T4&threads=2", "#m=300&n=300&k=300&device=H200"]
)
def test_the_curve_is_seen_where_the_model_chooses_one_side_alone(
    page: Page, shared_server: RunningServer, product: str
) -> None:
    show(page, f"{shared_server.url}/{product}")
    assert read_shown(page)["f"] in (0, 9)
    shown, drawn = page.run("""(() => {
        const box = (selector) => document.querySelector(selector).getBBox();
        return ['#curve #plot rect', '#curve g path'].map(box).map((one) => [one.y, one.height]);
    })()""")
    assert drawn[0] >= shown[0]
    assert drawn[0] + drawn[1] <= shown[0] + shown[1] + 1
    assert drawn[1] > shown[1] / 4


def test_a_choice_that_is_slower_than_the_f_that_is_shown_is_said_to_be_slower(
    page: Page, server: RunningServer
) -> None:
    show(page, f"{server.url}/{SPLIT}")
    for seconds, told in ((0.94, "6.38% more time"), (0.9999, "as fast"), (1.06, "6% more time")):
        shown = f"{{ f: 448, totalSeconds: {seconds} }}"
        chosen = "{ f: 0, totalSeconds: 1, problem: {}, gpuParts: [0] }"
        words = page.run(
            f"import('/page/explorer/words.js').then((all) => all.tellChoice({shown}, {chosen}))"
        )
        assert told in words, words
        assert ("as fast" in words) is (seconds == 0.9999)


def test_a_click_on_the_curve_without_a_gpu_changes_nothing(
    page: Page, shared_server: RunningServer
) -> None:
    show(page, f"{shared_server.url}/#device=cpu&threads=2")
    before = page.run("location.hash")
    page.run("document.querySelector('#curve svg').dispatchEvent(new MouseEvent('click', "
             "{ clientX: 600 })); null")  # fmt: skip
    assert page.run("location.hash") == before


def test_a_refusal_marks_its_field(page: Page, shared_server: RunningServer) -> None:
    show(page, f"{shared_server.url}/#device=T4&threads=2&kernel=bulk&dtype=float32")
    assert read_problem(page).startswith("kernel is")
    assert find_invalid(page) == ["kernel"]
    go(page, change("kernel", "auto"))
    assert page.run("document.querySelector('.problem').hidden")
    assert read_headline(page)


def test_a_gpu_that_the_service_lacks_is_refused_at_its_field(
    page: Page, shared_server: RunningServer
) -> None:
    show(page, f"{shared_server.url}/#device=cuda:7&threads=2")
    assert read_problem(page).startswith("device is")
    assert find_invalid(page) == ["device"]


def test_a_malformed_address_shows_the_default_product(page: Page) -> None:
    show(page, f"{FILE}#m=-3&n=x&k=1e99&dtype=%3Cb%3E&kernel=auto&device=T4&threads=0&f=1.5")
    assert read_headline(page)
    assert page.run("document.getElementById('m').value") == "4096"
    assert page.problems == []


def test_a_schedule_of_very_many_steps_is_drawn(page: Page, shared_server: RunningServer) -> None:
    product = "m=300000&n=300000&k=300000&dtype=float64&device=T4&threads=16"
    show(page, f"{shared_server.url}/#{product}")
    assert page.problems == []
    assert 10 < page.run("document.querySelectorAll('#timeline rect').length") < 2000


def test_every_tile_is_in_one_wave(page: Page, shared_server: RunningServer) -> None:
    product = "m=1024&n=1000&k=512&dtype=float32&device=T4&threads=2&kernel=shared&f=0"
    show(page, f"{shared_server.url}/#{product}")
    area = [one for _, one in page.run(AREAS)]
    size = page.run("(({ width, height }) => width.baseVal.value * height.baseVal.value)"
                    "(document.querySelector('#map rect[fill=none]'))")  # fmt: skip
    assert len(area) == int(read_shown(page)["waves"])
    assert sum(area) == pytest.approx(size, rel=0.01)


def test_a_picture_is_saved(page: Page, saved: Callable[[str], bytes]) -> None:
    show(page, f"{FILE}{SPLIT}")
    picture = matplotlib.image.imread(BytesIO(saved("Save a picture")), format="png")
    assert picture.shape[0] > 1000
    assert picture.shape[1] > 800
    assert len(np.unique(picture[::7, ::7].reshape(-1, picture.shape[2]), axis=0)) > 40
    assert page.problems == []


def test_the_schedule_is_saved_for_perfetto(page: Page, saved: Callable[[str], bytes]) -> None:
    show(page, f"{FILE}{MEASURED}")
    document = json.loads(saved("Save for Perfetto"))
    events = document["traceEvents"]
    names = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert names[0].startswith("predicted, F = ")
    assert names[1].startswith("measured on NVIDIA H200, F = ")
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


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1600, True)])
@pytest.mark.parametrize("address", [SPLIT, f"{MEASURED}&guess=500&exercise=8"])
def test_the_single_file_is_accessible_on_narrow_and_wide_screens(
    page: Page, width: int, dark: bool, address: str
) -> None:
    page.resize(width, 900, dark=dark)
    show(page, f"{FILE}{address}")
    assert page.run("document.documentElement.scrollWidth") == width
    assert find_barriers(page) == []


@pytest.mark.parametrize("name", PICTURES)
def test_the_explorer_looks_as_in_the_documents(page: Page, name: str) -> None:
    picture = PICTURES[name]
    expect_picture(picture.take(page), picture.path)


def test_the_key_is_asked_for_once_and_kept_in_the_tab(
    browser: Browser, page: Page, start_server: Start
) -> None:
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
    assert read_headline(other)
