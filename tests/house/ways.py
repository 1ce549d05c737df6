"""Counts the ways: our files and functions that run for a call, in all its processes, warm."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tests.environment import ROOT, clear_environment
from tests.server import NPY, RunningServer, encode_npy

_START = """
import os
if folder := os.environ.get("WAVETRIM_TEST_WAYS"):
    from pathlib import Path
    from tests.house import recorder
    recorder.start(Path(folder))
"""
"""A `sitecustomize`, which the interpreter runs at its start."""

_IN_PROCESS = """
import json
import numpy as np
import wavetrim
from tests.house import recorder

def find_way(call):
    for _ in range(5):
        call()
    found = []
    for _ in range(3):
        recorder.clear()
        call()
        found.append(set(recorder.list_functions()))
    return sorted(set.intersection(*found))

a = np.ones((300, 300), np.float32)
sizes = iter(range(1001, 1100))
ways = {
    "wavetrim.matmul, 300², CPU": lambda: wavetrim.matmul(a, a, device="cpu"),
    "wavetrim.plan, new shape": lambda: wavetrim.plan(next(sizes), 999, 999, device="H200"),
}
if wavetrim.plan(4096, 4096, 4096).gpu_rows:
    b = np.ones((2048, 2048), np.float32)
    c = wavetrim.empty((2048, 2048), np.float32)
    c[:] = 1
    ways["wavetrim.matmul, 2048², GPU, pageable"] = lambda: wavetrim.matmul(b, b)
    ways["wavetrim.matmul, 2048², GPU, page-locked"] = lambda: wavetrim.matmul(c, c, out=d)
    d = wavetrim.empty((2048, 2048), np.float32)
print(json.dumps({name: find_way(call) for name, call in ways.items()}))
"""

_WARM_CALLS = 5
_CALLS = 3
"""A function counts if it runs in each of them: what runs beside a call by chance does not."""


@dataclass(frozen=True, slots=True)
class Way:
    """What runs for one call: the number of files, and of functions in them."""

    files: int
    functions: int


def count_ways(*, devices="none"):
    """The ways of calls in process and over HTTP, by the call's name.

    Args:
        devices: The setting WAVETRIM_DEVICES: which GPUs compute.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(_START, encoding="utf-8")
        ways = _find_in_process(folder, devices) | _find_over_http(folder, devices)
    return {call: _count(functions) for call, functions in ways.items()}


def _count(functions):
    """The way of functions, of those that are in the rooms."""
    outside = (str(ROOT / "tests"), str(ROOT / ".venv"))
    ours = [
        (file, function)
        for file, function in functions
        if file.startswith(f"{ROOT}{os.sep}") and not file.startswith(outside)
    ]
    return Way(files=len({file for file, _ in ours}), functions=len(set(ours)))


def _find_in_process(folder, devices):
    environment = clear_environment(folder) | {
        "WAVETRIM_TEST_WAYS": str(folder),
        "WAVETRIM_DEVICES": devices,
    }
    ran = subprocess.run(
        [sys.executable, "-c", _IN_PROCESS],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    ways = json.loads(ran.stdout)
    return {call: {(file, name) for file, name in found} for call, found in ways.items()}


def _find_over_http(folder, devices):
    found = {}
    settings = {"modules": folder, "test_ways": folder, "devices": devices}
    settings["prefix"] = ("env",)  # without one it is forked from a process that has begun already
    with RunningServer(folder / "data", **settings) as server:
        for size in (64, 2048):
            body = 2 * encode_npy(np.ones((size, size), np.float32))
            found[f"POST /v1/matmul, {size}²"] = _record(folder, partial(_post, server, body))
        matrix = server.upload(np.ones((300, 300), np.float32))
        found["job of 300², POST to result"] = _record(folder, partial(_run_job, server, matrix))
    return found


def _post(server, body):
    response = server.client.post("/v1/matmul", content=body, headers=NPY)
    assert response.status_code == 200, response.text


def _run_job(server, matrix):
    job = server.post_job(matrix, matrix)
    assert server.wait_job(job)["state"] == "succeeded"
    response = server.client.get(f"/v1/jobs/{job}/result")
    assert response.status_code == 200, response.text


def _record(folder, call):
    """What runs for a call in the processes that answer in the folder."""
    for _ in range(_WARM_CALLS):
        call()
    found = []
    for _ in range(_CALLS):
        _ask(folder, "clear")
        call()
        found.append(_ask(folder, "list"))
    return set.intersection(*found)


def _ask(folder, question):
    answers = set()
    for path in folder.glob("*.sock"):
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(path))
            except ConnectionRefusedError:
                continue  # that process has ended
            with connection.makefile("rw") as file:
                file.write(f"{question}\n")
                file.flush()
                answers |= {(one, name) for one, name in json.loads(file.readline())}
    return answers
