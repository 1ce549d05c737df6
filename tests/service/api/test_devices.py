"""The list of devices over HTTP."""

from tests.server import RunningServer
from wavetrim.scheduler.profile.store import list_presets


def test_a_machine_without_a_gpu_says_so_and_where_its_figures_come_from(
    shared_server: RunningServer,
) -> None:
    listed = shared_server.client.get("/v1/devices").json()
    assert listed["devices"] == []
    assert listed["cpu_threads"] == 1
    assert listed["profile"]["device"] == "cpu"
    assert listed["profile"]["source"]


def test_every_preset_is_listed_with_its_source_and_can_be_planned_for(
    shared_server: RunningServer,
) -> None:
    presets = shared_server.client.get("/v1/devices").json()["presets"]
    assert [preset["name"] for preset in presets] == [gpu.name for gpu in list_presets()]
    for preset in presets:
        assert preset["source"]
        query = {"m": 512, "n": 512, "k": 512, "device": preset["name"]}
        plan = shared_server.client.get("/v1/plan", params=query).json()
        assert plan["profile"]["device"] == preset["name"]
