"""The list of devices over HTTP."""

import shutil

import numpy as np

from tests.processes import wait_until
from tests.server import NPY, RunningServer, encode_npy
from wavetrim.scheduler.profile.presets import PRESETS


def test_a_machine_without_a_gpu_says_so_and_where_its_figures_come_from(
    shared_server: RunningServer,
) -> None:
    listed = shared_server.client.get("/v1/devices").json()
    assert listed["devices"] == []
    assert listed["cpu_threads"] == 1
    assert listed["profile"]["device"] == "cpu"
    assert listed["profile"]["source"]
    assert [lane["device"] for lane in listed["lanes"]] == ["cpu"]
    assert listed["longest_wait_seconds"] == 0
    disk = listed["disk"]
    assert disk["size_bytes"] == shutil.disk_usage(shared_server.data_dir).total
    assert 0 < disk["used_bytes"] < disk["size_bytes"]
    assert 0 < disk["free_bytes"] <= disk["size_bytes"] - disk["used_bytes"]
    assert disk["limit_bytes"] == 256 * 2**30


def test_every_preset_is_listed_with_its_source_and_can_be_planned_for(
    shared_server: RunningServer,
) -> None:
    presets = shared_server.client.get("/v1/devices").json()["presets"]
    assert [preset["name"] for preset in presets] == [gpu.name for gpu in PRESETS]
    for preset in presets:
        assert preset["source"]
        query = {"m": 512, "n": 512, "k": 512, "device": preset["name"]}
        plan = shared_server.client.get("/v1/plan", params=query).json()
        assert plan["profile"]["device"] == preset["name"]


def test_runs_correct_the_predictions_and_the_metrics_tell(server: RunningServer) -> None:
    content = encode_npy(np.ones((700, 600))) + encode_npy(np.ones((600, 500)))
    for _ in range(3):
        server.client.post("/v1/matmul", content=content, headers=NPY).raise_for_status()
    name = 'wavetrim_correction_runs{runs_like="cpu in float64"}'
    wait_until(lambda: f"{name} 1.0" in server.client.get("/metrics").text)
    query = {"m": 700, "n": 500, "k": 600, "dtype": "float64"}
    (correction,) = server.client.get("/v1/plan", params=query).json()["profile"]["corrections"]
    assert correction["runs"] == 1
    assert correction["runs_like"].startswith("cpu in float64, about ")
