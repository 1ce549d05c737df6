"""`wavetrim.matmul` in a process that is not ours: its settings, folders and limits."""

import json
from pathlib import Path

import pytest

from tests.command import invoke_command, run_command
from tests.processes import run_python
from wavetrim.cpu.threads import usable_cores

MULTIPLY = """
import numpy, wavetrim
a = numpy.ones((500, 500))
print(int(wavetrim.matmul(a, a)[0, 0]), wavetrim.plan(9, 9, 9, device="cpu").f)
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WAVETRIM_PORT", "tcp://10.96.0.10:8000"),  # what Kubernetes sets beside a Service
        ("WAVETRIM_API_KEY_FILE", "/nonexistent/key"),
        ("WAVETRIM_API_KEY", "short"),
        ("WAVETRIM_MAX_MATRIX_BYTES", "much"),
        ("WAVETRIM_RAY_ADDRESS", "nowhere"),
        ("WAVETRIM_LOG_LEVEL", "loud"),
    ],
)
def test_no_setting_of_the_server_breaks_a_product_or_a_command_of_this_machine(
    tmp_path: Path, name: str, value: str
) -> None:
    answer = run_python(MULTIPLY, folder=tmp_path, **{name: value})
    assert (answer.stdout, answer.stderr) == ("500 9\n", "")
    for command in (["plan", "64", "64", "64"], ["devices"]):
        done = invoke_command(*command, folder=tmp_path, **{name: value})
        assert done.exit_code == 0, done.output


WITHOUT_CAPABILITIES = """
import ctypes, struct  # root may search any folder, unless it gives up its capabilities
header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
assert ctypes.CDLL(None).capset(header, ctypes.create_string_buffer(24)) == 0
"""

GONE = """
import os
os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
"""


@pytest.mark.parametrize(
    ("variable", "mode"),
    [("HOME", 0o000), ("XDG_CACHE_HOME", 0o500), ("WAVETRIM_DATA_DIR", 0o000)],
)
def test_a_folder_that_is_closed_is_done_without(tmp_path: Path, variable: str, mode: int) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(mode)
    folders = {"WAVETRIM_KERNEL_CACHE_DIR": "", "XDG_CACHE_HOME": "", variable: str(closed / "in")}
    try:
        answer = run_python(WITHOUT_CAPABILITIES + MULTIPLY, folder=tmp_path, **folders)
    finally:
        closed.chmod(0o700)
    assert answer.stdout == "500 9\n", answer.stderr
    assert "Permission denied" in answer.stderr


@pytest.mark.parametrize("place", ["/proc/in", "x" * 300])
def test_a_folder_that_cannot_be_is_done_without(tmp_path: Path, place: str) -> None:
    folders = {"WAVETRIM_KERNEL_CACHE_DIR": place, "WAVETRIM_PROFILE_DIR": place}
    answer = run_python(MULTIPLY, folder=tmp_path, **folders)
    assert answer.stdout == "500 9\n", answer.stderr
    assert "until the end" in answer.stderr


@pytest.mark.parametrize("named", ["", "here"])
def test_a_working_folder_that_is_gone_is_done_without(tmp_path: Path, named: str) -> None:
    answer = run_python(GONE + MULTIPLY, folder=tmp_path, WAVETRIM_DATA_DIR=named)
    assert answer.stdout == "500 9\n", answer.stderr


def test_without_any_folder_products_are_computed_by_python(tmp_path: Path) -> None:
    forbid = "import tempfile; tempfile.tempdir = '/proc/nowhere'\n"
    answer = run_python(
        forbid + MULTIPLY, folder=tmp_path, WAVETRIM_KERNEL_CACHE_DIR="/dev/null/in"
    )
    assert answer.stdout == "500 9\n", answer.stderr
    assert "Python" in answer.stderr


def test_a_variable_that_is_no_setting_is_warned_of_once(tmp_path: Path) -> None:
    of_kubernetes = {"WAVETRIM_SERVICE_HOST": "10.0.0.1", "WAVETRIM_PORT_8000_TCP_PORT": "8000"}
    answer = run_python(MULTIPLY * 2, folder=tmp_path, WAVETRIM_DEVICE="0", **of_kubernetes)
    warning = "WAVETRIM_DEVICE is no setting, and is ignored; is it WAVETRIM_DEVICES?\n"
    assert (answer.stdout, answer.stderr) == ("500 9\n" * 2, warning)
    told = run_command("plan", 9, 9, 9, folder=tmp_path, WAVETRIM_DEVICE="0", **of_kubernetes)
    assert told.stderr == warning


def test_a_setting_that_is_no_more_is_warned_of_with_its_successor(tmp_path: Path) -> None:
    answer = run_python(MULTIPLY * 2, folder=tmp_path, WAVETRIM_ACCESS_LOG="1")
    warning = (
        "WAVETRIM_ACCESS_LOG is no setting any more: WAVETRIM_LOG_LEVEL=debug logs every request\n"
    )
    assert (answer.stdout, answer.stderr) == ("500 9\n" * 2, warning)


@pytest.mark.parametrize(
    "name",
    [
        *("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"),
        *("MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    ],
)
def test_a_limit_of_the_environment_bounds_the_threads_of_products(
    tmp_path: Path, name: str
) -> None:
    told = json.loads(invoke_command("devices", "--json", folder=tmp_path, **{name: " 1 "}).stdout)
    assert told["cpu_threads"] == 1


@pytest.mark.parametrize(
    ("limits", "threads"),
    [
        ({"OMP_NUM_THREADS": "1,4"}, 1),  # of nested regions, the outermost
        ({"OMP_NUM_THREADS": "100000"}, usable_cores()),
        ({"OMP_NUM_THREADS": "0", "MKL_NUM_THREADS": "many", "BLIS_NUM_THREADS": "-1"}, None),
        ({"OMP_NUM_THREADS": "1", "WAVETRIM_CPU_THREADS": "3"}, 3),  # it is asked for
    ],
)
def test_limits_bound_the_default_alone_and_others_are_none(
    tmp_path: Path, limits: dict[str, str], threads: int | None
) -> None:
    told = json.loads(invoke_command("devices", "--json", folder=tmp_path, **limits).stdout)
    assert told["cpu_threads"] == (threads or usable_cores())


def test_one_thread_for_each_worker_is_one_thread_in_its_products(tmp_path: Path) -> None:
    program = """
import os, numpy, wavetrim
a = numpy.ones((700, 700))
before = len(os.listdir("/proc/self/task"))
wavetrim.matmul(a, a)
print(len(os.listdir("/proc/self/task")) - before)
"""
    answer = run_python(program, folder=tmp_path, OMP_NUM_THREADS="1")
    assert answer.stdout == "0\n", answer.stderr
