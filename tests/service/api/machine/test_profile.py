"""Profiles over HTTP."""

from tests.server import RunningServer
from wavetrim.scheduler.profile.machine import FORMAT_VERSION, MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import find_profile


def test_a_profile_has_every_number_that_plans_are_made_from(
    shared_server: RunningServer,
) -> None:
    for preset in PRESETS:
        sent = shared_server.client.get("/v1/profile", params={"device": preset.name}).json()
        assert sent.pop("corrections") == []
        document = {**sent, "format": FORMAT_VERSION, "key": {}}
        expected = find_profile(preset.name, devices=(), directory=None, cpu_threads=1)
        assert MachineProfile.from_dict(document) == expected


def test_this_machine_has_a_profile_and_an_unknown_one_is_refused(
    shared_server: RunningServer,
) -> None:
    sent = shared_server.client.get("/v1/profile").json()
    assert (sent["device"], sent["gpu"], sent["cpu"]["threads"]) == ("cpu", None, 1)
    refused = shared_server.client.get("/v1/profile", params={"device": "abacus"})
    assert (refused.status_code, refused.json()["field"]) == (422, "device")
