"""Profiles over HTTP."""

from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import FORMAT_VERSION, find_profile, read_profile


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
