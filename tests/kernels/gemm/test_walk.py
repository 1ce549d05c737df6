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


def run_walks(program):
    """What each worker does, by the kernel's source, for each case."""
    source, include = Path(__file__).with_name("walk_driver.cpp"), ROOT / "kernels" / "cuda"
    subprocess.run(["c++", "-std=c++17", f"-I{include}", "-o", program, source], check=True)
    cases = list(draw_cases())
    lines = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    answer = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return zip(cases, answer.stdout.split("\n\n"), strict=False)


def test_workers_compute_every_step_once_in_even_shares_and_owners_wait_for_who_contributes(
    tmp_path,
):
    for case, text in run_walks(tmp_path / "walk"):
        rows = [[int(word) for word in line.split()] for line in text.splitlines() if line]
        items = [Item(*row[:4], bool(row[4]), tuple(row[5:])) for row in rows]
        counts = np.zeros((case.tiles, case.steps_k), int)
        shares, own = [0] * case.workers, [[] for _ in range(case.workers)]
        for item in items:
            assert item.steps > 0
            counts[item.tile, item.first : item.first + item.steps] += 1
            shares[item.worker] += item.steps
            own[item.worker].append(item.contributes)
            assert all(other < item.worker for other in item.waits_for), "it may start later"
        assert (counts == 1).all(), case
        assert not any(any(contributes[1:]) for contributes in own), "once at most, and first"
        contributions = {(item.worker, item.tile) for item in items if item.contributes}
        awaited = {(other, item.tile) for item in items for other in item.waits_for}
        assert awaited == contributions, case
        ragged = case.steps_k if (case.tiles - case.shared_tiles) % case.workers else 0
        assert max(shares) - min(shares) <= 1 + ragged, case
