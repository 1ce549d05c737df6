"""`wavetrim devices` and `WAVETRIM_DEVICES`: which GPUs there are, or why there are none."""

import json

import pytest

from tests.command import run_command
from tests.environment import ROOT
from tests.kernels.cupy_without_gpu import UUIDS, write_cupy
from tests.processes import run_python
from wavetrim.service.cli.exits import ExitCode

MULTIPLY = "import wavetrim; print(wavetrim.matmul([[1.0]], [[2.0]], device={!r}))"


def test_devices_says_why_there_is_no_gpu_as_a_product_on_the_gpu_does(tmp_path):
    message = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime"
    path = f"{write_cupy(tmp_path, status=35, message=message)}:{ROOT}"
    asked = {"PYTHONPATH": path, "WAVETRIM_DEVICES": "", "CUDA_VISIBLE_DEVICES": "7"}
    reason = f"CUDA finds no device: {message} (CUDA_VISIBLE_DEVICES is '7')"
    told = run_command("devices", folder=tmp_path, **asked, COLUMNS="300")
    assert f"There is no GPU, and the CPU computes every row: {reason}." in told.stdout
    told = run_command("devices", "--json", folder=tmp_path, **asked)
    assert json.loads(told.stdout)["no_gpu_reason"] == reason
    refused = run_python(MULTIPLY.format("gpu"), folder=tmp_path, **asked)
    assert f"device is 'gpu'; it must be None or \"cpu\": {reason}" in refused.stderr


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("raise ValueError('numpy.dtype size changed')", "numpy.dtype size changed"),
        ("raise ImportError('libcuda.so.1: cannot open\\nmore')", "libcuda.so.1: cannot open."),
        ("import nowhere_found", "No module named 'nowhere_found'"),
    ],
)
def test_a_cupy_that_cannot_be_imported_is_named_and_done_without(tmp_path, broken, reason):
    path = f"{write_cupy(tmp_path)}:{ROOT}"
    (tmp_path / "cupy" / "__init__.py").write_text(broken)
    asked = {"PYTHONPATH": path, "WAVETRIM_DEVICES": ""}
    told = run_command("devices", folder=tmp_path, **asked, COLUMNS="300")
    assert f"CuPy cannot be imported: {reason}" in told.stdout
    done = run_python(MULTIPLY.format(None), folder=tmp_path, **asked)
    assert (done.stdout, done.stderr) == ("[[2.]]\n", "")


def test_a_service_says_why_it_has_no_gpu(start_server, tmp_path):
    path = write_cupy(tmp_path, status=100, message="cudaErrorNoDevice: no device is detected")
    with start_server(modules=path, devices="") as server:
        told = run_command("devices", "--url", server.url, folder=tmp_path, COLUMNS="300")
    assert "The service has no GPU: CUDA finds no device: cudaErrorNoDevice" in told.stdout


def test_gpus_that_are_switched_off_are_the_reason(tmp_path):
    told = run_command("devices", folder=tmp_path, WAVETRIM_DEVICES="none", COLUMNS="300")
    assert "every row: WAVETRIM_DEVICES is 'none'." in told.stdout
    refused = run_python(MULTIPLY.format("gpu"), folder=tmp_path, WAVETRIM_DEVICES="none")
    assert "it must be None or \"cpu\": WAVETRIM_DEVICES is 'none'" in refused.stderr


@pytest.mark.parametrize(
    ("choice", "indices"),
    [
        ("1,0", [1, 0]),
        (f"GPU-{UUIDS[1]}", [1]),
        (f"MIG-{UUIDS[0]},1", [0, 1]),
        ("GPU-0a9F", [1]),  # the beginning is enough, as for CUDA
    ],
)
def test_gpus_are_named_by_index_or_uuid(tmp_path, choice, indices):
    path = f"{write_cupy(tmp_path, uuids=UUIDS)}:{ROOT}"
    asked = {"PYTHONPATH": path, "WAVETRIM_DEVICES": choice}
    told = run_command("devices", "--json", folder=tmp_path, **asked)
    assert [one["index"] for one in json.loads(told.stdout)["devices"]] == indices, told.stderr


def test_a_gpu_that_is_not_there_is_refused(tmp_path):
    path = f"{write_cupy(tmp_path, uuids=UUIDS)}:{ROOT}"
    for choice in ("2", "0,7", "GPU-0a", "MIG-ffff", "MIG-GPU-0a9f/1/0"):
        asked = {"PYTHONPATH": path, "WAVETRIM_DEVICES": choice}
        message = (
            f'WAVETRIM_DEVICES is {choice!r}; it must be "none", or GPUs that are here: '
            f"0 (GPU-{UUIDS[0]}, GPU), 1 (GPU-{UUIDS[1]}, GPU)"
        )
        told = run_command("devices", folder=tmp_path, **asked)
        assert (told.returncode, told.stderr) == (ExitCode.REFUSED, f"wavetrim: {message}\n")
    refused = run_python(MULTIPLY.format(None), folder=tmp_path, **asked)
    assert message in refused.stderr
    planned = run_command("plan", "9", "9", "9", "--device", "T4", folder=tmp_path, **asked)
    assert planned.returncode == 0, planned.stderr  # which needs no GPU


def test_an_index_without_any_gpu_is_refused_with_the_reason(tmp_path):
    told = run_command("devices", folder=tmp_path, WAVETRIM_DEVICES="0", CUDA_VISIBLE_DEVICES="")
    assert told.returncode == ExitCode.REFUSED
    assert "WAVETRIM_DEVICES is '0'; it must be \"none\", or GPUs that are here: C" in told.stderr
