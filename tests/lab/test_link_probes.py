"""Probes of copies between host and GPU, and between GPUs."""

from pathlib import Path

import pytest

from wavetrim.kernels.device import list_devices
from wavetrim.kernels.timing.links import DIRECTIONS, MEMORIES, measure_locking, measure_transfers
from wavetrim.lab.gpu.peers import can_access_peer, measure_peers

pytestmark = pytest.mark.gpu

SIZES = (4, 4099, 32 << 20)


def test_every_byte_is_copied_from_every_kind_of_memory_in_every_direction() -> None:
    readings = measure_transfers(0, SIZES, 3)
    assert len(readings) == len(MEMORIES) * len(SIZES) * len(DIRECTIONS)
    for one in readings:
        assert one.right, one
        assert 0 < one.seconds < 1
    rates = {
        (one.way, one.direction): one.gbytes_per_second
        for one in readings
        if one.size_bytes == SIZES[-1]
    }
    assert rates["pinned", "in"] > rates["pageable", "in"]
    assert rates["registered", "in"] > rates["pageable", "in"]


def test_locking_memory_takes_time() -> None:
    for one in measure_locking(0, (1 << 20, 64 << 20), 2):
        assert one.register_seconds > 0
        assert one.unregister_seconds > 0
        assert one.allocate_seconds > 0


def test_two_gpus_exchange_every_byte(kernel_cache: Path) -> None:
    if len(list_devices()) < 2:
        pytest.skip("this machine has one GPU")
    sizes = (4, 4100, 9 << 20)
    readings = measure_peers(0, 1, kernel_cache, sizes, 3)
    ways = 3 if can_access_peer(0, 1) else 2
    assert len(readings) == ways * len(sizes) * 3
    for one in readings:
        assert one.right, one
        assert 0 < one.seconds < 1
    again = measure_peers(1, 0, kernel_cache, sizes[:1], 1)
    assert {one.direction for one in again} == {"1 → 0", "0 → 1", "both"}
