"""Devices and their profiles over HTTP."""

import shutil

import numpy as np

from tests.processes import wait_until
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import FORMAT_VERSION, find_profile, read_profile


def test_a_machine_without_a_gpu_says_so_and_where_its_figures_come_from(shared_server):
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


def test_every_preset_is_listed_with_its_source_and_can_be_planned_for(shared_server):
    presets = shared_server.client.get("/v1/devices").json()["presets"]
    assert [preset["name"] for preset in presets] == [gpu.name for gpu in PRESETS]
    for preset in presets:
        assert preset["source"]
        query = {"m": 512, "n": 512, "k": 512, "device": preset["name"]}
        plan = shared_server.client.get("/v1/plan", params=query).json()
        assert plan["profile"]["device"] == preset["name"]


def test_runs_correct_the_predictions_and_metrics_and_profile_tell(server):
    """They run in the engine's process, which tells the service."""

    def is_told():
        server.multiply(np.ones((700, 600)), np.ones((600, 500))).raise_for_status()
        metrics = server.client.get("/metrics").text
        return 'wavetrim_correction_runs{runs_like="CPU: arithmetic in float64"}' in metrics

    wait_until(is_told)
    (told,) = server.client.get("/v1/profile").json()["corrections"]
    assert told["kind"] == "CPU: arithmetic in float64"
    assert told["runs"] >= 3
    assert told["factor"] > 0
    query = {"m": 700, "n": 500, "k": 600, "dtype": "float64"}
    (correction,) = server.client.get("/v1/plan", params=query).json()["profile"]["corrections"]
    assert correction["runs_like"] == "CPU: arithmetic in float64"
    assert correction["runs"] >= 3


def test_a_profile_has_every_number_that_plans_are_made_from(shared_server):
    for name in [*(preset.name for preset in PRESETS), "H200 x3"]:
        sent = shared_server.client.get("/v1/profile", params={"device": name}).json()
        assert sent.pop("corrections") == []
        beside = [{**one, "cpu": sent["cpu"]} for one in sent.pop("beside")]
        document = {**sent, "format": FORMAT_VERSION, "beside": beside}
        expected = find_profile(name, devices=(), directory=None, cpu_threads=1)
        assert read_profile(document) == expected


def test_this_machine_has_a_profile_and_an_unknown_one_is_refused(shared_server):
    sent = shared_server.client.get("/v1/profile").json()
    assert (sent["device"], sent["gpu"], sent["cpu"]["threads"]) == ("cpu", None, 1)
    refused = shared_server.client.get("/v1/profile", params={"device": "abacus"})
    assert (refused.status_code, refused.json()["field"]) == (422, "device")
