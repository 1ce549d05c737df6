"""What the matrices take of the disk is known at every moment, and is what the list says."""

import random
from contextlib import nullcontext

import numpy as np

from tests.server import NPY, encode_npy
from tests.service.storage.database.test_away import locked

STEPS = 60


def test_whatever_happens_the_bytes_are_those_of_the_list(start_server):
    server = start_server(busy_timeout_seconds=1, max_storage_bytes=40_000)
    chance = random.Random(11)

    def upload():
        content = encode_npy(np.ones((1, chance.randint(1, 9000)), np.int8))
        place = chance.choice(["disk", "memory"])
        return server.client.post(f"/v1/matrices?storage={place}", content=content, headers=NPY)

    def delete():
        ids = [entry["id"] for entry in server.list_all("matrices", 200)]
        return server.client.delete(f"/v1/matrices/{chance.choice([*ids, 'none'])}")

    seen = set()
    for step in range(STEPS):
        if step % 20 == 19:
            server.kill() if step % 40 == 19 else server.stop()
            server.restart()
        with locked(server) if step % 10 == 5 else nullcontext():
            seen.add(chance.choice([upload, upload, delete])().status_code)
        listed = server.list_all("matrices", 200)
        on_disk = {one["id"]: one["bytes"] for one in listed if one["where"] == "disk"}
        assert server.read_metric("wavetrim_stored_bytes") == sum(on_disk.values())
        assert server.list_matrix_files() == {f"{name}.npy" for name in on_disk}
    assert seen >= {201, 204, 503, 507}
