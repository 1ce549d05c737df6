"""The order in which bulk's blocks walk over tiles; the kernel's own source, run on the host."""

import subprocess
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from tests.environment import ROOT
from wavetrim.kernels.gemm.tails import divide_tiles

pytestmark = pytest.mark.needs("c++")


Case = namedtuple("Case", "tiles shared_tiles steps_k workers")
Item = namedtuple("Item", "worker tile first steps contributes waits_for")


def draw_cases():
    """Divisions as of launches on 1…140 multiprocessors, and others."""
    yield Case(4096, 4, 16, 132)  # 8192x8192x256 in tiles of 128x128: fewer steps than workers
    generator = np.random.default_rng(0)
    for _ in range(300):
        tiles, steps_k, sms = (int(generator.integers(1, most)) for most in (300, 60, 141))
        division = divide_tiles(tiles, steps_k, sms)
        yield Case(tiles, division.shared_tiles, steps_k, division.blocks)
        yield Case(tiles, tiles % sms, steps_k, sms)


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    program = tmp_path_factory.mktemp("walk") / "walk"
    source, include = Path(__file__).with_name("walk_driver.cpp"), ROOT / "kernels" / "cuda"
    subprocess.run(["c++", "-std=c++17", f"-I{include}", "-o", program, source], check=True)
    cases = list(draw_cases())
    lines = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    answer = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    blocks = answer.stdout.split("\n\n")
    return [(case, read_items(block)) for case, block in zip(cases, blocks, strict=False)]


def read_items(text):
    rows = [[int(word) for word in line.split()] for line in text.splitlines() if line]
    return [Item(*row[:4], bool(row[4]), tuple(row[5:])) for row in rows]


def test_every_step_of_every_tile_is_computed_once(walks):
    for case, items in walks:
        counts = np.zeros((case.tiles, case.steps_k), int)
        for item in items:
            assert item.steps > 0
            counts[item.tile, item.first : item.first + item.steps] += 1
        assert (counts == 1).all(), case


def test_owners_wait_for_exactly_the_workers_that_contribute(walks):
    for case, items in walks:
        contributions = {(item.worker, item.tile) for item in items if item.contributes}
        awaited = {(other, item.tile) for item in items for other in item.waits_for}
        assert awaited == contributions, case


def test_a_worker_contributes_at_most_once_and_first(walks):
    for case, items in walks:
        for worker in range(case.workers):
            own = [item.contributes for item in items if item.worker == worker]
            assert not any(own[1:]), case


def test_owners_wait_only_for_workers_that_start_no_later(walks):
    assert all(
        other < item.worker for _, items in walks for item in items for other in item.waits_for
    )


def test_workers_have_even_shares(walks):
    for case, items in walks:
        shares = [0] * case.workers
        for item in items:
            shares[item.worker] += item.steps
        whole_tiles = case.tiles - case.shared_tiles
        ragged = case.steps_k if whole_tiles % case.workers else 0
        assert max(shares) - min(shares) <= 1 + ragged, case
