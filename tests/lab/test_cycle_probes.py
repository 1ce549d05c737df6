"""Probes of shared memory, constants and registers on a GPU."""

from pathlib import Path

import pytest

from wavetrim.lab.gpu.cycles import measure_banks, measure_registers, measure_tables
from wavetrim.lab.gpu.stopwatch import Stopwatch

pytestmark = pytest.mark.gpu


def test_words_of_one_bank_take_turns(watch: Stopwatch) -> None:
    cases = [(0, 1), (1, 1), (2, 1), (8, 1), (32, 1), (33, 1), (1, 2), (1, 16)]
    readings = measure_banks(watch, cases, 3)
    assert all(one.right for one in readings)
    cycles = {(one.way, one.step): one.cycles for one in readings}
    alone = cycles["stride", 1]
    assert alone > 0
    for free in (("stride", 0), ("stride", 33), ("multicast", 16), ("multicast", 2)):
        assert cycles[free] == pytest.approx(alone, rel=0.25)
    assert alone < cycles["stride", 8] < cycles["stride", 32]
    assert cycles["stride", 32] > 8 * alone


def test_different_constants_take_turns_and_the_same_one_does_not(watch: Stopwatch) -> None:
    readings = measure_tables(watch, (1, 4, 32), 3)
    assert all(one.right for one in readings)
    cycles = {(one.way, one.step): one.cycles for one in readings}
    assert 0 < cycles["constant", 1] < cycles["constant", 4] < cycles["constant", 32]
    assert 0 < cycles["read-only", 32] < cycles["constant", 32]


def test_fewer_registers_spill_and_compute_the_same(watch: Stopwatch, kernel_cache: Path) -> None:
    readings = measure_registers(watch, kernel_cache, 3)
    assert all(one.right for one in readings)
    assert [one.blocks_per_sm for one in readings] == [2, 4, 6, 8]
    used = [one.registers for one in readings]
    assert used == sorted(used, reverse=True)
    assert readings[0].spill_bytes == 0 < readings[-1].spill_bytes
    assert readings[0].seconds < readings[-1].seconds
