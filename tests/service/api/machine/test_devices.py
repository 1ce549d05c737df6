"""Devices and their profiles over HTTP, and a stored B that stays on a GPU for all to see."""

import shutil

import numpy as np
import pytest

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


COUNTS = ("limit_bytes", "size_bytes", "operands", "uses", "fetches", "evictions")


def find_residents(server):
    return server.client.get("/v1/devices").json()["residents"]


def test_without_a_gpu_nothing_stays_and_jobs_of_one_b_are_right(shared_server):
    server = shared_server
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype("float32") for shape in ((8, 300), (300, 200)))
    ids = [server.upload(one) for one in (a, b)]
    for _ in range(3):
        done = server.run_job(*ids)
        assert done["plan"]["resident"] is False
        assert np.array_equal(server.download(f"/v1/jobs/{done['id']}/result"), a @ b)
    assert find_residents(server) == []


@pytest.mark.gpu
def test_a_b_of_many_jobs_stays_until_its_matrix_is_deleted(start_server):
    server = start_server(devices="0", arena_bytes=2**30)
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-3, 4, shape).astype("float32") for shape in ((64, 4096), (4096, 4096)))
    a_id, b_id = server.upload(a), server.upload(b)
    wait_until(lambda: server.read_arena("locked_bytes") > 0, seconds=60)

    def multiply():
        done = server.run_job(a_id, b_id, f=0)
        assert np.array_equal(server.download(f"/v1/jobs/{done['id']}/result"), a @ b)
        return done

    plans = [multiply()["plan"] for _ in range(6)]
    assert plans[0]["resident"] is False
    assert plans[-1]["resident"] is True
    wait_until(lambda: find_residents(server)[0]["operands"] == 1, seconds=10)
    (told,) = find_residents(server)
    assert told["size_bytes"] >= b.nbytes
    for name in COUNTS:
        shown = server.read_metric(f'wavetrim_residents{{gpu="0",what="{name}"}}')
        assert shown == told[name]
    assert server.client.delete(f"/v1/matrices/{b_id}").status_code == 204
    wait_until(lambda: find_residents(server)[0]["size_bytes"] == 0, seconds=10)
    assert find_residents(server)[0]["evictions"] == 0
