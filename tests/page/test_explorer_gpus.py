"""Plans in the wave explorer are the service's answers, drawn for each of several GPUs."""

import json
from urllib.parse import urlencode

import numpy as np
import pytest

from tests.browsers import SHOWN, count, go, read, read_all, show, show_anew
from tests.environment import clear_environment
from tests.host_gpus import write_sitecustomize
from tests.matrices import make_matrix
from tests.page.explorer import AREAS, BY_COLUMNS, BY_ROWS, change, find_invalid, read_shown
from wavetrim.scheduler.execution.timings import SAMPLED_EVERY

SPLIT = "m=16384&n=16384&k=128&dtype=float32&memory=pinned&device=H200&threads=64&gpus=2"
SHAPES = [
    *((4096, 4096, 4096), (16384, 16384, 256), (1000, 30000, 8192), (20000, 8192, 8192)),
    *((1000, 70, 333), (2560, 16385, 4096)),
]


def plan(server, **query):
    answer = server.client.get("/v1/plan", params=query)
    answer.raise_for_status()
    return answer.json()


def read_devices(page):
    return page.run(
        "[...document.querySelectorAll('.parts tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )


@pytest.mark.parametrize(("device", "count"), [("here", 0), ("T4", 1), ("H200", 8), ("T4", 3)])
def test_plans_are_those_of_the_service(page, shared_server, device, count):
    used = set()
    if device == "here":
        for _ in range(3 * SAMPLED_EVERY):  # let runs correct predictions
            assert shared_server.multiply(*[np.ones((9, 9), np.float32)] * 2).is_success
        # An open page does not know of runs since it was loaded.
        show_anew(page, f"{shared_server.url}/#device=here")
    for m, n, k in SHAPES:
        for memory in ("pageable", "pinned"):
            query = {"m": m, "n": n, "k": k, "dtype": "float32", "memory": memory}
            named = {"device": f"{device} x{count}", "cpu_threads": 32} if count else {}
            expected = plan(shared_server, **query, **named)
            threads = expected["profile"]["cpu"]["threads"]
            address = {**query, "device": device, "threads": threads}
            if count:
                address["gpus"] = count
            show(page, f"{shared_server.url}/#{urlencode(address)}")
            shown = expected["f"], expected["waves"], expected["predicted"]["total_seconds"]
            assert tuple(read_shown(page).values()) == shown, address
            parts = expected["devices"]
            gpus = [one for one in parts if one["device"] != "cpu"]
            used.add((len(gpus), expected["f"] > 0))
            if len(gpus) > 1:
                rows = [[f"{one['rows']:,}", f"{one['columns']:,}"] for one in parts]
                assert [cells[1:3] for cells in read_devices(page)] == rows, address
    if count > 1:
        assert {(count, False), (count, count < 8)} <= used  # with rows of the CPU and without
    assert page.problems == []


@pytest.fixture
def two_gpus(tmp_path, monkeypatch, start_server):
    folder = write_sitecustomize(tmp_path, row_seconds=1e-5)
    monkeypatch.setenv("PYTHONPATH", clear_environment(folder)["PYTHONPATH"])
    return start_server(devices="0,1")


def test_all_gpus_of_the_service_can_be_chosen(page, two_gpus):
    query = {"m": 16384, "n": 16384, "k": 8192, "dtype": "float32", "memory": "pinned"}
    show(page, f"{two_gpus.url}/#{urlencode(query)}&device=here")
    both, one = plan(two_gpus, **query), plan(two_gpus, **query, devices="0")
    assert [part["device"] for part in both["devices"]] == ["cuda:0", "cuda:1"]
    assert read_shown(page)["seconds"] == both["predicted"]["total_seconds"]
    assert page.run("document.getElementById('gpus').placeholder") == "2"
    options = "[...document.getElementById('device').options].map((one) => one.textContent)"
    assert page.run(options)[:3] == ["This machine", "GPU 0: NVIDIA H200", "GPU 1: NVIDIA H200"]
    go(page, change("gpus", 1))
    assert read_shown(page)["seconds"] == one["predicted"]["total_seconds"]
    page.run(f"{change('gpus', 3)}; null")
    page.wait(f"{SHOWN} && !document.querySelector('.problem').hidden")
    assert read(page, ".problem") == "gpus is 3; it must be 1…2, the machine's GPUs"
    assert find_invalid(page) == ["gpus"]


def test_a_job_is_shown_on_the_gpu_that_computed_it(page, two_gpus):
    a, b = make_matrix(300, 200, "float32", seed=1), make_matrix(200, 100, "float32", seed=2)
    job = two_gpus.wait_job(two_gpus.post_job(a, b, f=0, devices="1"))
    show_anew(page, f"{two_gpus.url}/#view=jobs&job={job['id']}")
    page.run("document.querySelector('.job [aria-label^=See]').click(); null")
    page.wait("document.getElementById('told-job')")
    assert page.run("document.getElementById('device').value") == "cuda:1"
    assert read_shown(page)["waves"] == job["plan"]["waves"] > 0


@pytest.mark.parametrize("address", [f"{BY_ROWS}&gpus=3", BY_COLUMNS])
def test_the_map_shows_the_waves_and_name_of_each_gpu(page, shared_server, address):
    show(page, f"{shared_server.url}/{address}")
    size = page.run("(({ width, height }) => width.baseVal.value * height.baseVal.value)"
                    "(document.querySelector('#map rect[fill=none]'))")  # fmt: skip
    drawn = {}
    for name, area in page.run(AREAS):
        drawn.setdefault(name, []).append(area)
    m, n = (int(page.run(f"document.getElementById('{one}').value")) for one in "mn")
    table = {
        row[0]: [int(cell.replace(",", "")) for cell in row[1:4]] for row in read_devices(page)
    }
    assert len(table) > 2
    assert drawn.keys() == table.keys()
    for name, (rows, columns, waves) in table.items():
        assert len(drawn[name]) == waves
        assert sum(drawn[name]) == pytest.approx(size * rows * columns / (m * n), rel=0.02)
    names = read_all(page, "#map text")
    assert [one for one in names if one.startswith("GPU")] == list(table)
    lines = count(page, "#map line")
    assert lines == 2 * (len(table) - 1)  # two for each boundary
    label = page.run("document.querySelector('#map svg').getAttribute('aria-label')")
    assert all(f"of {name} in" in label for name in table)


def test_timeline_and_trace_show_each_gpu(page, shared_server, saved):
    show(page, f"{shared_server.url}/#{SPLIT}")
    names = page.run(
        "[...document.querySelectorAll('#timeline text')].map((one) => one.textContent)"
        ".filter((one) => /[a-zA-Z]{3}/.test(one))"
    )
    queues = ["copy in", "kernel", "copy out"]
    assert names == ["GPU 0", *queues, "GPU 1", *queues, "CPU"]
    events = json.loads(saved("Save for Perfetto"))["traceEvents"]
    processes = {
        one["pid"]: one["args"]["name"].split(",")[0]
        for one in events
        if one["name"] == "process_name"
    }
    assert list(processes.values()) == ["GPU 0", "GPU 1", "CPU"]
    ends = [one["ts"] + one["dur"] for one in events if one["ph"] == "X"]
    assert max(ends) == pytest.approx(1e6 * read_shown(page)["seconds"])


def test_a_schedule_of_very_many_steps_on_eight_gpus_is_drawn(page, shared_server):
    address = "m=300000&n=300000&k=300000&dtype=float64&device=T4&threads=1&gpus=8&memory=pinned"
    show(page, f"{shared_server.url}/#{address}")
    assert len(read_devices(page)) == 8
    assert page.problems == []
    assert 100 < count(page, "#timeline rect") < 9000
    assert 8 <= count(page, "#map path") < 500
