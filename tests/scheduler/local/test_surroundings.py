"""`wavetrim.matmul` in a process that is not ours: its settings, folders and limits."""

import json

import pytest

from tests.command import invoke_command, run_command
from tests.processes import expect_output, run_python

MULTIPLY = """
import numpy, wavetrim
a = numpy.ones((500, 500))
print(int(wavetrim.matmul(a, a)[0, 0]), wavetrim.plan(9, 9, 9, device="cpu").f)
"""


OF_THE_SERVER = {
    "WAVETRIM_PORT": "tcp://10.96.0.10:8000",  # what Kubernetes sets beside a Service
    "WAVETRIM_API_KEY_FILE": "/nonexistent/key",
    "WAVETRIM_API_KEY": "short",
    "WAVETRIM_MAX_MATRIX_BYTES": "much",
    "WAVETRIM_RAY_ADDRESS": "nowhere",
    "WAVETRIM_LOG_LEVEL": "loud",
}
"""Settings that no service takes."""


def test_no_setting_of_the_server_breaks_a_product_or_a_command_of_this_machine(tmp_path):
    expect_output(MULTIPLY, folder=tmp_path, prints="500 9\n", **OF_THE_SERVER)
    for command in (["plan", "64", "64", "64"], ["devices"]):
        done = invoke_command(*command, folder=tmp_path, **OF_THE_SERVER)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "mode"), [("HOME", 0o000), ("XDG_CACHE_HOME", 0o500), ("WAVETRIM_DATA_DIR", 0o000)]
)
def test_a_folder_that_is_closed_is_done_without(tmp_path, variable, mode):
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


@pytest.mark.parametrize("named", ["", "here"])
def test_a_working_folder_that_is_gone_is_done_without(tmp_path, named):
    answer = run_python(GONE + MULTIPLY, folder=tmp_path, WAVETRIM_DATA_DIR=named)
    assert answer.stdout == "500 9\n", answer.stderr


def test_without_any_folder_products_are_computed_by_python(tmp_path):
    forbid = "import tempfile; tempfile.tempdir = '/proc/nowhere'\n"
    answer = run_python(
        forbid + MULTIPLY, folder=tmp_path, WAVETRIM_KERNEL_CACHE_DIR="/dev/null/in"
    )
    assert answer.stdout == "500 9\n", answer.stderr
    assert "Python" in answer.stderr


def test_a_variable_that_is_no_setting_is_warned_of_once(tmp_path):
    of_kubernetes = {"WAVETRIM_SERVICE_HOST": "10.0.0.1", "WAVETRIM_PORT_8000_TCP_PORT": "8000"}
    answer = run_python(MULTIPLY * 2, folder=tmp_path, WAVETRIM_DEVICE="0", **of_kubernetes)
    warning = "WAVETRIM_DEVICE is no setting, and is ignored; is it WAVETRIM_DEVICES?\n"
    assert (answer.stdout, answer.stderr) == ("500 9\n" * 2, warning)
    told = run_command("plan", 9, 9, 9, folder=tmp_path, WAVETRIM_DEVICE="0", **of_kubernetes)
    assert told.stderr == warning


@pytest.mark.parametrize(
    "name",
    [
        *("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"),
        *("MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    ],
)
def test_a_limit_of_the_environment_bounds_the_threads_of_products(tmp_path, name):
    told = json.loads(invoke_command("devices", "--json", folder=tmp_path, **{name: " 1 "}).stdout)
    assert told["cpu_threads"] == 1
